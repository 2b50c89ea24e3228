// What a case file may abbreviate, and the rows of tables that it names.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::calibrate {

// Expands alternatives in braces: "span.{attn,mlp}.{1,2}" stands for four texts.
struct Alternative {
  std::string text;
  std::vector<std::string> choices;  // the choice from each pair of braces
};

// Returns all texts; the last pair of braces varies fastest. Input error when braces do not match, are nested or empty,
// or stand for more than 10,000 texts.
model::Result<std::vector<Alternative>> alternatives(std::string_view text);

// Replaces "{1}" in `text` by the first choice, "{2}" by the second, ...
std::string with_choices(std::string text, const std::vector<std::string>& choices);

// Return an input error about the row with that id; of another error the key, the message and the hint.
model::Error about_row(const std::string& id, std::string message, std::string hint);
model::Error about_row(const std::string& id, const model::Error& error);

// Returns the one of a case's tables [[what]] that has the name; an input error about the row where none has.
template <class Named, class Name>
model::Result<const Named*> named_by_case(const std::vector<Named>& all, Name name, const std::string& wanted,
                                          const std::string& id, const std::string& what) {
  const auto found = std::ranges::find(all, wanted, name);
  if (found != all.end()) return &*found;
  return tl::unexpected(
      about_row(id, "the case has no " + what + " '" + wanted + "'", "add a [[" + what + "]] table with this name"));
}

// Returns the plan that differs from the defaults in `changes`. The error names the row and the key.
model::Result<model::Plan> plan_of_row(const std::string& id, const std::vector<std::string>& changes);

// Published tables, one row per result: CSV files under calibrate/published/; lines that start with '#' are comments.
struct PublishedAllToAll {
  std::string id, source;
  AllToAllQuestion question;  // of dispatch; combine takes the same route back
  // B/s of one GPU: over NVLink as printed, over RDMA the bytes that leave the node (the physical columns).
  double dispatch_rate = 0, combine_rate = 0;
};

// Reads expert all-to-alls from at least the columns id, kernel_mode, ep (ranks), tokens_per_rank, hidden, topk, groups
// (nodes that a token may reach), dispatch_dtype, dispatch_gbps, combine_gbps, link (NVLink, RDMA),
// physical_ib_dispatch_gbps, physical_ib_combine_gbps, source (deepep.csv). Only rows whose kernel_mode is "normal" are
// read: others (low latency, other kernels) have another form. Input errors name file, line and column: a missing file
// or column, a cell that is no number above 0, an unknown link or number format, a single rank, or ranks that do not
// divide DeepEP's 256 experts.
model::Result<std::vector<PublishedAllToAll>> read_published_all_to_alls(const std::string& path);

struct PublishedGemm {
  std::string id, kernel, source;
  GemmQuestion gemm;
  double seconds = 0;
};

// Reads GEMMs from at least the columns id, kernel, dtype, groups, m (rows per group), n, k, time_us, source
// (gemm.csv). Input errors name file, line and column: a missing file or column, a cell that is no number above 0, a
// size that is not whole.
model::Result<std::vector<PublishedGemm>> read_published_gemms(const std::string& path);

}  // namespace plumbline::calibrate
