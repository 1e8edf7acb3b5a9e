"""The version of Sluice."""

VERSION = "0.1.0"
