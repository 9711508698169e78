// Passes of the partition phase.
#ifndef MSAMP_PARTITION_PASSES
#define MSAMP_PARTITION_PASSES

include "mlir/Pass/PassBase.td"

def PlaceGradients : Pass<"msamp-place-gradients", "::mlir::ModuleOp"> {
  let summary = "lay the parameters out in flat spaces and store each gradient where it is complete";
  let description = [{
    Each state class has a flat space; its parameters lie there in the order in which the backward completes their
    gradients, cut into `msamp.bucket`s. A gradient that `@step` returned is stored by `msamp.store_grad` right after its
    definition instead.
  }];
  let options = [
    Option<"bucketMiB", "bucket-mib", "int64_t", "32", "gradient bytes a bucket, in MiB">,
    Option<"zero", "zero", "int64_t", "0", "ZeRO stage">];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def ExchangeGradients : Pass<"msamp-exchange-gradients", "::mlir::ModuleOp"> {
  let summary = "exchange each bucket as soon as its last gradient is stored";
  let description = [{
    With one micro-batch a step the exchange overlaps the rest of the backward. With several it happens once a step and
    the optimizer phase puts it into `@update`.
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
