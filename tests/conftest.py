import torch
from hypothesis import settings

# tests run in as many processes as there are cores; more threads would only wait for each other
torch.set_num_threads(1)

# how long an example takes depends on who else is at work
settings.register_profile("oneof", deadline=None)
settings.load_profile("oneof")
