"""Subscriptions and events from files: what matches what and why, without a broker and without Spark."""
