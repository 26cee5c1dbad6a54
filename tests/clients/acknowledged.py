"""Sends numbered records for a few seconds while the broker is killed; prints how many were acknowledged.

    acknowledged.py ADDRESS TOPIC ROUND
"""
import sys, time
from kafka import KafkaProducer

address, topic, round = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True, linger_ms=5, request_timeout_ms=10_000, delivery_timeout_ms=60_000)
results = []
deadline = time.monotonic() + 2.5
number = 0
while time.monotonic() < deadline:
    for _ in range(100):
        results.append(producer.send(topic, b"%s:%d" % (round.encode(), number), partition=0))
        number += 1
    if number == 100:
        results[0].get(timeout=30)
        print("sending", flush=True)
producer.flush(timeout=60)
print(sum(1 for r in results if r.succeeded()))
