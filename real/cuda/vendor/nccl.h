// NCCL, opened at run time: its functions by their own names, and its errors in its own words.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/status.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {

// The member and the function's name.
#define PLUMBLINE_NCCL_FUNCTIONS(DO)     \
  DO(version, ncclGetVersion)            \
  DO(unique_id, ncclGetUniqueId)         \
  DO(init, ncclCommInitRankConfig)       \
  DO(destroy, ncclCommDestroy)           \
  DO(abort, ncclCommAbort)               \
  DO(async_error, ncclCommGetAsyncError) \
  DO(error_string, ncclGetErrorString)   \
  DO(last_error, ncclGetLastError)       \
  DO(all_reduce, ncclAllReduce)          \
  DO(reduce_scatter, ncclReduceScatter)  \
  DO(all_gather, ncclAllGather)          \
  DO(send, ncclSend)                     \
  DO(receive, ncclRecv)                  \
  DO(group_start, ncclGroupStart)        \
  DO(group_end, ncclGroupEnd)

struct Nccl {
  std::shared_ptr<Library> library;
  PLUMBLINE_NCCL_FUNCTIONS(PLUMBLINE_FUNCTION_MEMBER)

  // Returns nullptr if the library is missing, with the reason in `error`.
  static std::unique_ptr<Nccl> open(const std::vector<std::string>& folders, std::string& error);
  // Returns the status of a call, in the library's words. A call that is still in progress has not failed.
  Status outcome(ncclResult_t result, const char* doing, ncclComm_t communicator = nullptr) const;
};

// Formats "doing failed: unhandled system error, ...": the code's meaning, and the library's last words if there are
// any.
Status nccl_outcome(ncclResult_t result, const char* doing, const char* meaning, const char* last_words);

}  // namespace plumbline::real::cuda
