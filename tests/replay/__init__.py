"""`make replay REF=commit`: what two builds of the optimizer make of the same corpus of graphs."""
