//! Compares us with real Kafka and with other codecs: see `tests/`.
