// NCCL's functions, loaded when a communicator is made.
#ifndef MSAMP_RUNTIME_COMM_NCCL_NCCL_H
#define MSAMP_RUNTIME_COMM_NCCL_NCCL_H

#include <nccl.h>

namespace msamp::runtime::nccl {

#define MSAMP_NCCL_FUNCTIONS(X)                                                                                        \
  X(ncclGetUniqueId)                                                                                                   \
  X(ncclCommInitRank)                                                                                                  \
  X(ncclCommAbort)                                                                                                     \
  X(ncclCommDestroy)                                                                                                   \
  X(ncclCommGetAsyncError) X(ncclGetErrorString) X(ncclGetLastError) X(ncclGroupStart) X(ncclGroupEnd) X(ncclSend)     \
      X(ncclRecv) X(ncclAllGather) X(ncclBroadcast)

struct Nccl {
#define MSAMP_DECLARE(function) decltype(&::function) function;
  MSAMP_NCCL_FUNCTIONS(MSAMP_DECLARE)
#undef MSAMP_DECLARE

  // Error 75 if the library is not here.
  static const Nccl &get();
};

} // namespace msamp::runtime::nccl

#endif
