# The end-to-end tests; see msamp_e2e in ../CMakeLists.txt.
msamp_e2e(quick PROCESSORS 2)
msamp_e2e(telling PROCESSORS 2)
msamp_e2e(check)
# Other levels against the same reference, within bounds derived from what they round.
msamp_e2e(check-levels SCRIPT check
          ARGS --levels bf16,O1,O2,O3,O2/current,O2/rowwise,O1/block,O3/block --models gpt_bytes,gpt2.dynamo,llama.dynamo,opt.legacy17,bloom.legacy17,resnet.dynamo)
msamp_e2e(check-fp8-head SCRIPT check
          ARGS --levels O1/fp8-head,O3/fp8-head,O2/current/fp8-head,O2/rowwise/fp8-head --models gpt_bytes,gpt2.dynamo,llama.dynamo)
msamp_e2e(fp8-head SCRIPT fp8_head PROCESSORS 2)
msamp_e2e(odd-vocabulary SCRIPT odd_vocabulary)
msamp_e2e(convnet PROCESSORS 2)
msamp_e2e(fp8-inputs SCRIPT fp8_inputs)
msamp_e2e(bf16-products SCRIPT bf16_products)
msamp_e2e(optimizer PROCESSORS 2)
msamp_e2e(bench PROCESSORS 2)
msamp_e2e(memory PROCESSORS 2)
msamp_e2e(bad-input SCRIPT bad_input)
msamp_e2e(resilience PROCESSORS 2)
msamp_e2e(ranks PROCESSORS 2 TIMEOUT 1200)
msamp_e2e(train PROCESSORS 2 TIMEOUT 2700 SLOW)
