"""The events of an Arrow batch: read from their records, and matched.

For: decode values, add the fields beside them, and match all parts of the state. May enter: records from anybody,
codecs, mapped segments. Must not know: who publishes what matches.

reading.py        the values that subscriptions name, of the events in a batch
record_fields.py  fields beside the value: the record's key, headers, timestamp, topic and partition
matches.py        which subscriptions match which rows
"""
