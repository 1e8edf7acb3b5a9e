"""Read and write the job's topics for the client and the command line, whether a job runs or not.

For: list, import, pause and acknowledge subscriptions; read deliveries; show, redrive and replay. May enter: clients,
documents, codecs, and the worker's way to read events. Must not know: Spark, the driver and its state.
"""
