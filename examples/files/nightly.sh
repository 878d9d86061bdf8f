#!/bin/sh
# A night's crawl for cron: filters the files that came since the last night. No scheduler but cron is needed.
#
#     15 4 * * *  /srv/crawl/nightly.sh /srv/crawl/incoming /srv/crawl/filtered
#
# A night that was cut short goes on where it stopped, for the same command does. A file is moved away only when it is done.
set -eu
incoming=$1
filtered=$2
mkdir -p "$incoming/done"
for file in "$incoming"/*.jsonl.gz; do
    [ -e "$file" ] || exit 0
    name=$(basename "$file" .jsonl.gz)
    # One index for all nights: what came last week is not new tonight.
    streamer filter "$file" --out "$filtered/$name" --index "$filtered/index"
    mv "$file" "$incoming/done/"
done
