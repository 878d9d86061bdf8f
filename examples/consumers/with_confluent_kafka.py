"""Read the unique documents with confluent-kafka: each once, and none that was taken back.

python with_confluent_kafka.py BOOTSTRAP_SERVERS [TOPIC] [GROUP]
"""

import json
import sys

from confluent_kafka import Consumer, KafkaException


def main(bootstrap_servers: str, topic: str = "documents-unique", group: str = "reader") -> None:
    """Print id, verdict and title of every document, until Ctrl-C."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            # The client's default; written out, for without it a reader sees what the filter took back.
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    while True:
        records = consumer.consume(1_000, timeout=1.0)
        for record in records:
            if record.error():
                raise KafkaException(record.error())
            told = dict(record.headers())
            document = json.loads(record.value())
            print(told["neardup.id"].decode(), told["neardup.verdict"].decode(), document.get("title"), sep="\t")
        sys.stdout.flush()
        if records:
            # After the work, not before: what is not committed comes again.
            consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
