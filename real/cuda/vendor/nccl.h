// NCCL, opened at run time: its functions by their own names, errors with its own words.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/status.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {

struct Nccl {
  std::shared_ptr<Library> library;
  decltype(&::ncclGetVersion) version = nullptr;
  decltype(&::ncclGetUniqueId) unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) init = nullptr;
  decltype(&::ncclCommDestroy) destroy = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;
  decltype(&::ncclCommGetAsyncError) async_error = nullptr;
  decltype(&::ncclGetErrorString) error_string = nullptr;
  decltype(&::ncclGetLastError) last_error = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) receive = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;

  // nullptr: `error` says what is missing.
  static std::unique_ptr<Nccl> open(const std::vector<std::string>& folders, std::string& error);
  // What a call came to, in the library's words. A call that is still under way has not failed.
  Status outcome(ncclResult_t result, const char* doing, ncclComm_t communicator = nullptr) const;
};

// "doing failed: unhandled system error, ...": what the code means, and the library's last words where it left some.
Status nccl_outcome(ncclResult_t result, const char* doing, const char* meaning, const char* last_words);

}  // namespace plumbline::real::cuda
