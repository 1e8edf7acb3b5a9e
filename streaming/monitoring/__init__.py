"""What the person who runs the job looks at: figures, whether it is well, and a page that shows both.

The job tells a `Monitor` what it did. Whoever asks gets a `View`, all of that at one moment, which no longer changes:
`exposition` makes of it what Prometheus reads, `status` a JSON document and `page` the same for people.
"""
