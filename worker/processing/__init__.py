"""The processor's parts, in the order in which a micro-batch goes through them.

`plan` applies the contract's rules to events and stored rows; `embed` gives every new sentence its vector;
`publish` ranks and makes messages; `hot` holds the entities in memory, in the meantime and between batches.
"""
