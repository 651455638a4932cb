"""What lets PyTorch run on the simulated device.

libraries   NVIDIA's libraries are replaced by stand-ins, before torch loads them
values      where contents of the device decide what a program does, plausible ones stand in
kernels     Triton and Inductor: kernels are neither compiled nor run
ranks       one rank of a world that does not run, or several processes
steps       counts optimizer steps and ends the program after the wanted number
report      what was seen, written at exit
hooks       puts each of these in place when the module that it concerns has been imported
"""
