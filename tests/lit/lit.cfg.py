# lit's configuration: every .mlir and .test file under this folder is a test; %models and %python are substituted.
import os
import shutil

import lit.formats

config.name = "msamp"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
path = [config.msamp_bin, config.llvm_bin, os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
config.substitutions.append(("%models", os.path.join(config.msamp_source, "tests", "models")))
config.substitutions.append(("%python", config.python))

# As msampc looks for the assembler of GPU kernels.
for variable in ("CUDA_HOME", "CUDA_PATH"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
        path.append(os.path.join(os.environ[variable], "bin"))
path += ["/usr/local/cuda/bin", "/opt/cuda/bin"]
if shutil.which("ptxas", path=os.pathsep.join(path)):
    config.available_features.add("ptxas")
