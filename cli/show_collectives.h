// `plumbline show topology NAME --collectives`: predicted times of a collective over message size, in the columns of
// nccl-tests, so that a cluster's own output can be laid beside them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/base/error.h"
#include "model/cost/collective_cost.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::cli {

struct CollectivesOptions {
  model::Collective collective = model::Collective::all_reduce;
  std::int64_t least = 8, most = std::int64_t{8} << 30;  // bytes; doubled from row to row
};

// A table over all GPUs of the cluster, its comments first: what the times rest on.
model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options);

// As the command line gives it.
struct CollectivesArguments {
  bool wanted = false;
  std::string collective, least, most, profile;  // empty: the defaults; the profile that the topology names
  // The option that says nothing about such a `kind` of show, or without --collectives; nullptr when all do.
  const char* misplaced(std::string_view kind) const;
};
void add_collectives_options(CLI::App& verb, CollectivesArguments& arguments);

// 8, 4K, 1M, 8G in powers of two, as nccl-tests take them; an input error otherwise.
model::Result<std::int64_t> parse_size(const std::string& text, const char* option);

// Loads the topology with `gpus` (0: one full node) and its profile.
model::Result<std::string> show_collectives(const std::string& topology, std::int64_t gpus,
                                            const CollectivesArguments& arguments);

}  // namespace plumbline::cli
