// What `plumbline plan` is asked: which sites to look at, by what to choose, and what must not be exceeded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

enum class Objective { time, cost, gpu_hours };
std::string_view to_string(Objective objective);  // "time" | "cost" | "gpu-hours"
model::Result<Objective> parse_objective(std::string_view text);

// "60d", "36h", "8w", "90min" in days. A number without a unit is an error.
model::Result<double> parse_days(std::string_view text);
// USD: "6e6", "6000000", "5.5M", "800k".
model::Result<double> parse_usd(std::string_view text);

struct Limits {
  std::optional<double> days;
  std::optional<double> usd;
  bool any() const { return days || usd; }
};

// One cluster of one size. Empty cluster and 0 GPUs: as the plan says.
struct SiteName {
  std::string cluster;  // a shipped topology or a file
  std::string profile;  // cost profile; empty: the cluster's own
  std::int64_t gpus = 0;
};

// Every cluster with every number of GPUs, clusters first, each site once. `cluster` may name its cost profile:
// "h100-dgx:h100-public".
model::Result<std::vector<SiteName>> sites_of(const std::vector<std::string>& clusters,
                                              const std::vector<std::int64_t>& gpus);

}  // namespace plumbline::cli
