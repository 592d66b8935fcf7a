"""``burstctl aws-check``: measures what AWS does not document, in an account that lets it.

``facts`` holds one module per fact. ``fact`` says what a fact is, ``bench`` what it may do, ``runner`` tries
all of them at the same time, ``report`` writes what they found. It has never run on AWS.
"""
