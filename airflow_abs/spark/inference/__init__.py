"""`plan` chooses the edges that an author did not declare: keys, and which inputs are copied to all.

It proposes; whether a proposal is right is for `proof/` to say, and no proposal gets past that.
"""
