#include "sim/search/cluster_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/base/text.h"

namespace plumbline::sim {
namespace {

using model::Result;

// Parses NAME[@GPUS][:PROFILE]; gpus is 0 where no size is named.
Result<ClusterChoice> choice_of(const std::string& text) {
  const auto refuse = [&] {
    return model::wrong_input("--cluster", fmt::format("'{}' is not NAME[@GPUS][:PROFILE]", text),
                              "for example --cluster h800-rail-fat-tree,h100-dgx@1024:h100-torch");
  };
  ClusterChoice choice;
  const std::size_t colon = std::min(text.rfind(':'), text.rfind(":scaled:"));  // of a profile scaled:NAME
  choice.cluster = text.substr(0, colon);
  if (colon != std::string::npos) choice.profile = text.substr(colon + 1);
  if (colon != std::string::npos && choice.profile.empty()) return refuse();
  const std::size_t at = choice.cluster.rfind('@');
  const bool sized = at != std::string::npos && choice.cluster.find('/', at) == std::string::npos;
  if (sized) {
    choice.gpus = model::parse_number<std::int64_t>(std::string_view(choice.cluster).substr(at + 1)).value_or(0);
    if (choice.gpus < 1) return refuse();
    choice.cluster.resize(at);
  }
  if (choice.cluster.empty()) return refuse();
  return choice;
}

// Parses CLUSTER:GPUS[@USD_PER_GPU_HOUR[:PROFILE]].
Result<ClusterChoice> offer_of(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    return model::wrong_input("--offer",
                              fmt::format("'{}' is not CLUSTER:GPUS[@USD_PER_GPU_HOUR[:PROFILE]]: {}", text, why),
                              "for example --offer h200-hgx:512@2.60, or h100-dgx:1024@1.95:h100-torch");
  };
  const std::size_t at = text.rfind('@');
  const std::string place = text.substr(0, at);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos) return refuse("it names no number of GPUs");
  if (colon == 0) return refuse("it names no cluster");
  const std::string size = place.substr(colon + 1);
  const auto gpus = model::parse_number<std::int64_t>(size);
  if (!gpus || *gpus < 1) return refuse(fmt::format("'{}' is no number of GPUs", size));
  ClusterChoice choice{place.substr(0, colon), "", *gpus, true, {}};
  if (at == std::string::npos) return choice;
  const std::string terms = text.substr(at + 1);
  const std::size_t second = terms.find(':');
  const std::string price = terms.substr(0, second);
  choice.usd_per_gpu_hour = model::parse_number<double>(price);
  if (!choice.usd_per_gpu_hour || !std::isfinite(*choice.usd_per_gpu_hour) || *choice.usd_per_gpu_hour <= 0)
    return refuse(fmt::format("'{}' is no price above 0 of a GPU-hour", price));
  if (second == std::string::npos) return choice;
  choice.profile = terms.substr(second + 1);
  if (choice.profile.empty()) return refuse("it names no profile after its price");
  return choice;
}

// Returns the sizes of a cluster: its own, or all of `gpus`.
Result<std::vector<std::int64_t>> sizes_of(const ClusterChoice& choice, const std::vector<std::int64_t>& gpus) {
  if (choice.gpus == 0) return gpus.empty() ? std::vector<std::int64_t>{0} : gpus;
  if (!gpus.empty() && std::ranges::find(gpus, choice.gpus) == gpus.end())
    return model::wrong_input(
        "--cluster", fmt::format("{}@{} contradicts --gpus {}", choice.cluster, choice.gpus, fmt::join(gpus, ",")),
        "leave --gpus out, or give it that size too");
  return std::vector{choice.gpus};
}

}  // namespace

Result<std::vector<ClusterChoice>> cluster_choices(const std::vector<std::string>& clusters,
                                                   const std::vector<std::int64_t>& gpus,
                                                   const std::vector<std::string>& offers) {
  std::vector<ClusterChoice> choices;
  if (!offers.empty() && (!clusters.empty() || !gpus.empty()))
    return model::wrong_input("--offer",
                              "an offer names its cluster and its size, so that --cluster and --gpus have "
                              "no meaning",
                              "leave these out: a cluster with its own price is --offer NAME:GPUS");
  for (const std::int64_t size : gpus)
    if (size < 1)
      return model::wrong_input("--gpus", fmt::format("{} GPUs train nothing", size),
                                "give numbers from 1 on: --gpus 1024,2048");
  std::vector<ClusterChoice> named;
  for (const std::string& text : offers) named.push_back(TRY(offer_of(text)));
  for (const std::string& text : clusters) named.push_back(TRY(choice_of(text)));
  if (named.empty()) named.emplace_back();
  for (ClusterChoice choice : named) {
    for (const std::int64_t size : TRY(sizes_of(choice, gpus))) {
      choice.gpus = size;
      if (std::ranges::find(choices, choice) == choices.end()) choices.push_back(choice);
    }
  }
  return choices;
}

}  // namespace plumbline::sim
