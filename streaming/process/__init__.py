"""The job as a process of the operating system.

For: restart it after temporary failures, end it with its parent, and let one process at a time
use a checkpoint directory. May enter: signals, locks, exit codes. Must not know: Kafka, Spark, and the job's work.
"""
