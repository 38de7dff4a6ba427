"""The output topic and files of it: summaries as they were published, read back, compared and
drawn.
"""
