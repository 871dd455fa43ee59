"""Training jobs: from a packed file of meshes, or features of your own sensors, to weights and the card beside them.

    job = TrainingJob(Path("meshes.safetensors"), out=Path("weights"))
    card, files = trunk.make(trunk.begin(job, "trunk", settings), "trunk", settings, seeds=[0])

work         data and folder of a job, its splits, a trunk on disk, for what is trained on its features
trunk        trunks, one for each seed
head         local heads, and the vote
codec        codecs, one for each seed, for several ε, and their accuracy through each network
sensors      heads, vote and codec of your own sensors, in one file; their features on disk
card         model cards
"""
