import torch

# tests run in as many processes as there are cores; more threads would only wait for each other
torch.set_num_threads(1)
