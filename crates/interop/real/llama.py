"""Serves a model with llama.cpp's own HTTP server on 127.0.0.1; prints the address; ends with its standard input."""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 8192
params.n_parallel = 1
# The small model does not know when to stop.
params.n_predict = 48
params.use_jinja = True
params.warmup = False
params.sampling.temp = 0.0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
