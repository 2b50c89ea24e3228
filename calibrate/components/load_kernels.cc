#include <fmt/format.h>

#include <algorithm>

#include "calibrate/components/detail/component_table.h"
#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

// Checks that groups of heads share the keys and values.
template <class Row>
model::Result<void> check_heads(const CsvTable& csv, std::size_t at, Row& row) {
  if (row.heads % row.kv_heads == 0) return {};
  return tl::unexpected(csv.error(at, "kv_heads", fmt::format("{} heads are no multiple of it", row.heads)));
}

model::Result<void> read_window(const CsvTable& csv, std::size_t at, TrainingAttentionRow& row) {
  if (csv.text(at, "window") != "none") row.window = TRY(csv.whole(at, "window"));
  return check_heads(csv, at, row);
}

// Checks "bf16" of a core, "bf16/fp8/nvfp4" (attention, cache, GEMMs) of a block.
model::Result<void> check_format(const CsvTable& csv, std::size_t at, MlaRow& mla) {
  const auto parts = model::split(mla.format, '/');
  const auto known = [](std::string_view format) {
    return format == "bf16" || format == "fp8" || format == "fp8_block" || format == "nvfp4";
  };
  if (parts.size() == (mla.part == "core" ? 1u : 3u) && std::ranges::all_of(parts, known)) return {};
  return tl::unexpected(
      csv.error(at, "format",
                fmt::format("'{}' is neither the format of a core (bf16, fp8) nor attention/cache/GEMMs", mla.format)));
}

model::Result<void> check_experts(const CsvTable& csv, std::size_t at, ExpertRow& row) {
  if (row.top_k <= row.experts) return {};
  return tl::unexpected(csv.error(at, "top_k", fmt::format("more than the {} experts", row.experts)));
}

}  // namespace

model::Result<std::vector<AttentionRow>> load_attention_rows(const std::string& path) {
  using Row = AttentionRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"batch", &Row::batch},
                                                       {"tokens", &Row::tokens},
                                                       {"heads", &Row::heads},
                                                       {"kv_heads", &Row::kv_heads},
                                                       {"dim", &Row::dim}},
                                           .finish = check_heads<Row>});
}

double TrainingAttentionRow::keys_per_query() const {
  const double length = static_cast<double>(keys);
  const double seen = window > 0 ? std::min(length, static_cast<double>(window)) : length;
  return mask == "causal" ? seen - seen * seen / (2 * length) : seen;
}

model::Result<std::vector<TrainingAttentionRow>> load_training_attention_rows(const std::string& path) {
  using Row = TrainingAttentionRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"format", &Row::format, {"bf16", "fp8", "mxfp8"}},
                                                       {"pass", &Row::backward, {"forward", "backward"}},
                                                       {"sums", &Row::deterministic, {"any_order", "deterministic"}},
                                                       {"mask", &Row::mask, {"causal", "full"}},
                                                       {"window"},
                                                       {"batch", &Row::batch},
                                                       {"heads", &Row::heads},
                                                       {"kv_heads", &Row::kv_heads},
                                                       {"qk_dim", &Row::qk_dim},
                                                       {"v_dim", &Row::v_dim},
                                                       {"queries", &Row::queries},
                                                       {"keys", &Row::keys}},
                                           .finish = read_window});
}

model::Result<std::vector<MlaRow>> load_mla_rows(const std::string& path) {
  using Row = MlaRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"part", &Row::part, {"core", "block"}},
                                                       {"format", &Row::format},
                                                       {"batch", &Row::batch},
                                                       {"tokens", &Row::tokens},
                                                       {"heads", &Row::heads}},
                                           .finish = check_format});
}

model::Result<std::vector<CachedAttentionRow>> load_cached_attention_rows(const std::string& path) {
  using Row = CachedAttentionRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"cache", &Row::format, {"bf16", "fp8"}},
                                                       {"heads", &Row::heads},
                                                       {"kv_heads", &Row::kv_heads},
                                                       {"qk_dim", &Row::qk_dim},
                                                       {"v_dim", &Row::v_dim},
                                                       {"queries", &Row::queries},
                                                       {"batch", &Row::batch}},
                                           .swept = "keys",
                                           .swept_field = &Row::keys,
                                           .finish = check_heads<Row>});
}

model::Result<std::vector<ExpertRow>> load_expert_rows(const std::string& path) {
  using Row = ExpertRow;
  return components::read_rows<Row>(path,
                                    {.columns = {{"software", &Row::software},
                                                 {"kernel", &Row::kernel},
                                                 {"format", &Row::format, components::gemm_formats},
                                                 {"distribution", &Row::distribution, {"balanced", "power_law_1.2"}},
                                                 {"tokens", &Row::tokens},
                                                 {"hidden", &Row::hidden},
                                                 {"ffn", &Row::ffn},
                                                 {"top_k", &Row::top_k},
                                                 {"experts", &Row::experts},
                                                 {"expert_parallel", &Row::expert_parallel}},
                                     .finish = check_experts});
}

}  // namespace plumbline::calibrate
