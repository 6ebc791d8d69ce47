"""A scheduler that competes for nearly full hosts with outside writers, and the truth about what it claimed.

Threads ask Berth for hosts, others claim in Placement as another scheduler does, others delete instances: all
of them without a pause, so that most claims meet a change that their query has not seen. What is wrong in the
end: an inventory that is over-committed, an instance without its allocation, an allocation without an
instance, and a ``NoValidHost`` although a host had room from the request to the reply.
"""
