// A step as autodiff leaves it: tied table and head, layer norm, a linear layer with bias, gelu, a second one, residual.
// (The derivative of the cross-entropy and of the norm are cut short; their form does not matter here.)
module {
  msamp.parameter @wte : tensor<48x16xf32> table {trained = true}
  msamp.parameter @"ln.weight" : tensor<16xf32> scale {trained = true}
  msamp.parameter @"ln.bias" : tensor<16xf32> shift {trained = true}
  msamp.parameter @"up.weight" : tensor<16x64xf32> matrix {trained = true}
  msamp.parameter @"up.bias" : tensor<64xf32> bias {trained = true}
  msamp.parameter @"down.weight" : tensor<64x16xf32> matrix {trained = true}
  func.func @step(%ids: tensor<32xi64> {msamp.name = "ids"}, %labels: tensor<32xi64> {msamp.name = "labels", msamp.labels})
      -> (tensor<f32> {msamp.name = "loss"}, tensor<32x48xf32> {msamp.name = "logits"},
          tensor<48x16xf32> {msamp.grad = @wte}, tensor<16xf32> {msamp.grad = @"ln.weight"},
          tensor<16xf32> {msamp.grad = @"ln.bias"}, tensor<16x64xf32> {msamp.grad = @"up.weight"},
          tensor<64xf32> {msamp.grad = @"up.bias"}, tensor<64x16xf32> {msamp.grad = @"down.weight"}) {
    %wte = msamp.get @wte : tensor<48x16xf32>
    %lnw = msamp.get @"ln.weight" : tensor<16xf32>
    %lnb = msamp.get @"ln.bias" : tensor<16xf32>
    %up = msamp.get @"up.weight" : tensor<16x64xf32>
    %upb = msamp.get @"up.bias" : tensor<64xf32>
    %down = msamp.get @"down.weight" : tensor<64x16xf32>
    %x = msamp.gather %wte at %ids axis = 0 : tensor<48x16xf32>, tensor<32xi64> -> tensor<32x16xf32>
    %n, %mean, %rstd = msamp.layer_norm %x scale %lnw : tensor<16xf32> shift %lnb : tensor<16xf32> {eps = 1.0e-5 : f64} : tensor<32x16xf32> -> tensor<32x16xf32>, tensor<32xf32>, tensor<32xf32>
    %h = msamp.matmul %n, %up : tensor<32x16xf32>, tensor<16x64xf32> -> tensor<32x64xf32>
    %hb = msamp.broadcast %upb dims = [1] : tensor<64xf32> -> tensor<32x64xf32>
    %h1 = arith.addf %h, %hb : tensor<32x64xf32>
    %g = msamp.gelu %h1 {tanh} : tensor<32x64xf32> -> tensor<32x64xf32>
    %y = msamp.matmul %g, %down : tensor<32x64xf32>, tensor<64x16xf32> -> tensor<32x16xf32>
    %x2 = arith.addf %x, %y : tensor<32x16xf32>
    %logits = msamp.matmul %x2, %wte {transpose_b} : tensor<32x16xf32>, tensor<48x16xf32> -> tensor<32x48xf32>
    %loss, %lse, %valid = msamp.cross_entropy %logits, %labels {ignore_index = -100 : i64} : tensor<32x48xf32>, tensor<32xi64> -> tensor<f32>, tensor<32xf32>, tensor<f32>
    // Backward.
    %lseb = msamp.broadcast %lse dims = [0] : tensor<32xf32> -> tensor<32x48xf32> loc(#bwd)
    %shifted = arith.subf %logits, %lseb : tensor<32x48xf32> loc(#bwd)
    %p = math.exp %shifted : tensor<32x48xf32> loc(#bwd)
    %validb = msamp.broadcast %valid dims = [] : tensor<f32> -> tensor<32x48xf32> loc(#bwd)
    %dlogits = arith.divf %p, %validb : tensor<32x48xf32> loc(#bwd)
    %dx2 = msamp.matmul %dlogits, %wte : tensor<32x48xf32>, tensor<48x16xf32> -> tensor<32x16xf32> loc(#bwd)
    %dhead = msamp.matmul %dlogits, %x2 {transpose_a} : tensor<32x48xf32>, tensor<32x16xf32> -> tensor<48x16xf32> loc(#bwd)
    %dg = msamp.matmul %dx2, %down {transpose_b} : tensor<32x16xf32>, tensor<64x16xf32> -> tensor<32x64xf32> loc(#bwd)
    %ddown = msamp.matmul %g, %dx2 {transpose_a} : tensor<32x64xf32>, tensor<32x16xf32> -> tensor<64x16xf32> loc(#bwd)
    %dh = msamp.gelu_grad %dg, %h1 {tanh} : tensor<32x64xf32>, tensor<32x64xf32> -> tensor<32x64xf32> loc(#bwd)
    %dupb = msamp.reduce sum %dh dims = [0] : tensor<32x64xf32> -> tensor<64xf32> loc(#bwd)
    %dn = msamp.matmul %dh, %up {transpose_b} : tensor<32x64xf32>, tensor<16x64xf32> -> tensor<32x16xf32> loc(#bwd)
    %dup = msamp.matmul %n, %dh {transpose_a} : tensor<32x16xf32>, tensor<32x64xf32> -> tensor<16x64xf32> loc(#bwd)
    %meanb = msamp.broadcast %mean dims = [0] : tensor<32xf32> -> tensor<32x16xf32> loc(#bwd)
    %rstdb = msamp.broadcast %rstd dims = [0] : tensor<32xf32> -> tensor<32x16xf32> loc(#bwd)
    %c = arith.subf %x, %meanb : tensor<32x16xf32> loc(#bwd)
    %xhat = arith.mulf %c, %rstdb : tensor<32x16xf32> loc(#bwd)
    %nx = arith.mulf %dn, %xhat : tensor<32x16xf32> loc(#bwd)
    %dlnw = msamp.reduce sum %nx dims = [0] : tensor<32x16xf32> -> tensor<16xf32> loc(#bwd)
    %dlnb = msamp.reduce sum %dn dims = [0] : tensor<32x16xf32> -> tensor<16xf32> loc(#bwd)
    %lnwb = msamp.broadcast %lnw dims = [1] : tensor<16xf32> -> tensor<32x16xf32> loc(#bwd)
    %gn = arith.mulf %dn, %lnwb : tensor<32x16xf32> loc(#bwd)
    %dxn = arith.mulf %gn, %rstdb : tensor<32x16xf32> loc(#bwd)
    %dx = arith.addf %dx2, %dxn : tensor<32x16xf32> loc(#bwd)
    %demb = msamp.scatter_add %dx at %ids : tensor<32x16xf32>, tensor<32xi64> -> tensor<48x16xf32> loc(#bwd)
    %dwte = arith.addf %dhead, %demb : tensor<48x16xf32> loc(#bwd)
    return %loss, %logits, %dwte, %dlnw, %dlnb, %dup, %dupb, %ddown : tensor<f32>, tensor<32x48xf32>, tensor<48x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x64xf32>, tensor<64xf32>, tensor<64x16xf32>
  }
}
#bwd = loc(fused<"autodiff">["node"])
