// The functions of NCCL in use, by their own names; the library is opened at run time.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/library_search.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

struct NcclFunctions {
  std::shared_ptr<Library> library;
  decltype(&::ncclGetUniqueId) unique_id = nullptr;
  decltype(&::ncclCommInitRank) init_rank = nullptr;
  decltype(&::ncclCommDestroy) destroy = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) receive = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclGetErrorString) error_string = nullptr;
  decltype(&::ncclGetVersion) version = nullptr;

  Status open(const std::vector<std::string>& folders) {
    std::string error;
    library = Library::open(known_library("NCCL"), folders, error);
    if (!library) return {"missing library: " + error};
    const Library& l = *library;
    const bool all = l.load(unique_id, "ncclGetUniqueId") && l.load(init_rank, "ncclCommInitRank") &&
                     l.load(destroy, "ncclCommDestroy") && l.load(all_reduce, "ncclAllReduce") &&
                     l.load(all_gather, "ncclAllGather") && l.load(reduce_scatter, "ncclReduceScatter") &&
                     l.load(send, "ncclSend") && l.load(receive, "ncclRecv") && l.load(group_start, "ncclGroupStart") &&
                     l.load(group_end, "ncclGroupEnd") && l.load(error_string, "ncclGetErrorString") &&
                     l.load(version, "ncclGetVersion");
    return all ? Status{} : Status{l.path() + " lacks a function: NCCL 2.7 or newer is needed"};
  }
  Status outcome(ncclResult_t result, const char* doing) const {
    if (result == ncclSuccess) return {};
    return {std::string(doing) + " failed: " + error_string(result)};
  }
};

}  // namespace plumbline::real::cuda
