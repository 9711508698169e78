// Sums of sums: whether a product is an output is found without walking each path, of which there are 2^40.
// RUN: msamp-opt %s --msamp-tie-twins | FileCheck %s
// CHECK: math.tanh
func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %t0 = msamp.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %t1 = arith.addf %t0, %t0 : tensor<4x4xf32>
  %t2 = arith.addf %t1, %t1 : tensor<4x4xf32>
  %t3 = arith.addf %t2, %t2 : tensor<4x4xf32>
  %t4 = arith.addf %t3, %t3 : tensor<4x4xf32>
  %t5 = arith.addf %t4, %t4 : tensor<4x4xf32>
  %t6 = arith.addf %t5, %t5 : tensor<4x4xf32>
  %t7 = arith.addf %t6, %t6 : tensor<4x4xf32>
  %t8 = arith.addf %t7, %t7 : tensor<4x4xf32>
  %t9 = arith.addf %t8, %t8 : tensor<4x4xf32>
  %t10 = arith.addf %t9, %t9 : tensor<4x4xf32>
  %t11 = arith.addf %t10, %t10 : tensor<4x4xf32>
  %t12 = arith.addf %t11, %t11 : tensor<4x4xf32>
  %t13 = arith.addf %t12, %t12 : tensor<4x4xf32>
  %t14 = arith.addf %t13, %t13 : tensor<4x4xf32>
  %t15 = arith.addf %t14, %t14 : tensor<4x4xf32>
  %t16 = arith.addf %t15, %t15 : tensor<4x4xf32>
  %t17 = arith.addf %t16, %t16 : tensor<4x4xf32>
  %t18 = arith.addf %t17, %t17 : tensor<4x4xf32>
  %t19 = arith.addf %t18, %t18 : tensor<4x4xf32>
  %t20 = arith.addf %t19, %t19 : tensor<4x4xf32>
  %t21 = arith.addf %t20, %t20 : tensor<4x4xf32>
  %t22 = arith.addf %t21, %t21 : tensor<4x4xf32>
  %t23 = arith.addf %t22, %t22 : tensor<4x4xf32>
  %t24 = arith.addf %t23, %t23 : tensor<4x4xf32>
  %t25 = arith.addf %t24, %t24 : tensor<4x4xf32>
  %t26 = arith.addf %t25, %t25 : tensor<4x4xf32>
  %t27 = arith.addf %t26, %t26 : tensor<4x4xf32>
  %t28 = arith.addf %t27, %t27 : tensor<4x4xf32>
  %t29 = arith.addf %t28, %t28 : tensor<4x4xf32>
  %t30 = arith.addf %t29, %t29 : tensor<4x4xf32>
  %t31 = arith.addf %t30, %t30 : tensor<4x4xf32>
  %t32 = arith.addf %t31, %t31 : tensor<4x4xf32>
  %t33 = arith.addf %t32, %t32 : tensor<4x4xf32>
  %t34 = arith.addf %t33, %t33 : tensor<4x4xf32>
  %t35 = arith.addf %t34, %t34 : tensor<4x4xf32>
  %t36 = arith.addf %t35, %t35 : tensor<4x4xf32>
  %t37 = arith.addf %t36, %t36 : tensor<4x4xf32>
  %t38 = arith.addf %t37, %t37 : tensor<4x4xf32>
  %t39 = arith.addf %t38, %t38 : tensor<4x4xf32>
  %t40 = arith.addf %t39, %t39 : tensor<4x4xf32>
  %y = math.tanh %t40 : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
