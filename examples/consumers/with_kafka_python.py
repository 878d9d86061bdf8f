"""Read the unique documents with kafka-python: each once, and none that was taken back.

python with_kafka_python.py BOOTSTRAP_SERVERS [TOPIC] [GROUP]
"""

import json
import sys

from kafka import KafkaConsumer


def main(bootstrap_servers: str, topic: str = "documents-unique", group: str = "reader") -> None:
    """Print id, verdict and title of every document, until Ctrl-C."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        # Without this a reader sees what the filter delivered and took back, and everything that it delivers twice.
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    while True:
        for records in consumer.poll(timeout_ms=1_000).values():
            for record in records:
                told = dict(record.headers)
                document = json.loads(record.value)
                print(told["neardup.id"].decode(), told["neardup.verdict"].decode(), document.get("title"), sep="\t")
        sys.stdout.flush()
        # After the work, not before: what is not committed comes again.
        consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
