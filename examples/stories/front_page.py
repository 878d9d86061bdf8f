"""A front page from the topic of stories: each story once, those with the most sources first.

python front_page.py BOOTSTRAP_SERVERS [TOPIC] [STORIES]
"""

import json
import sys

from kafka import KafkaConsumer, TopicPartition


def main(bootstrap_servers: str, topic: str = "documents-stories", shown: str = "20") -> None:
    """Print the page once all records were read, and again after every change, until Ctrl-C."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed")
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    consumer.assign(partitions)
    # The topic is compacted, so from its begin on it has the latest value of every story.
    consumer.seek_to_beginning(*partitions)
    stories, changed = {}, False
    while True:
        polled = consumer.poll(timeout_ms=1_000)
        for records in polled.values():
            for record in records:
                if record.value:
                    stories[record.key] = json.loads(record.value)
                else:
                    stories.pop(record.key, None)
        changed = changed or bool(polled)
        if changed and not polled:
            changed = False
            for story in sorted(stories.values(), key=lambda story: story["hosts"], reverse=True)[: int(shown)]:
                print(f"{story['hosts']} sources", story["id"], ", ".join(story["first_hosts"][:3]), sep="\t")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
