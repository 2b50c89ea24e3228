#include <fmt/format.h>

#include <algorithm>

#include "calibrate/components/detail/component_table.h"
#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using components::ComponentTable;

// DeepSeek-V3's dimensions of a query and key, and of a value.
constexpr double mla_qk_dim = 192, mla_v_dim = 128;

double real(std::int64_t value) { return static_cast<double>(value); }

// Returns the FLOPs of causal attention, forward: two GEMMs over half of all pairs of query and key.
double causal_flops(std::int64_t batch_heads, std::int64_t tokens, double qk_and_v_dim) {
  return real(batch_heads) * real(tokens) * real(tokens) / 2 * 2 * qk_and_v_dim;
}

// Checks "bf16" of a core, "bf16/fp8/nvfp4" (attention, cache, GEMMs) of a block, and returns the attention's format.
model::Result<std::string> attention_format(const ComponentTable& table, std::size_t row, const MlaRow& mla) {
  const auto parts = model::split(mla.format, '/');
  const auto known = [](std::string_view format) {
    return format == "bf16" || format == "fp8" || format == "fp8_block" || format == "nvfp4";
  };
  bool good = parts.size() == (mla.part == "core" ? 1u : 3u);
  for (const std::string_view part : parts) good = good && known(part);
  if (good) return std::string(parts.front());
  return tl::unexpected(table.csv().error(
      row, "format",
      fmt::format("'{}' is neither the format of a core (bf16, fp8) nor attention/cache/GEMMs", mla.format)));
}

}  // namespace

model::Result<std::vector<AttentionRow>> load_attention_rows(const std::string& path, const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    const CsvTable& csv = table.csv();
    AttentionRow attention;
    attention.software = TRY(table.name(row, "software"));
    attention.batch = TRY(csv.whole(row, "batch"));
    attention.tokens = TRY(csv.whole(row, "tokens"));
    attention.heads = TRY(csv.whole(row, "heads"));
    attention.kv_heads = TRY(csv.whole(row, "kv_heads"));
    attention.dim = TRY(csv.whole(row, "dim"));
    attention.seconds = TRY(table.seconds(row, "time_us"));
    if (attention.heads % attention.kv_heads != 0)
      return tl::unexpected(csv.error(row, "kv_heads", fmt::format("{} heads are no multiple of it", attention.heads)));
    TRY(table.first(row, {"software", "batch", "tokens", "heads", "kv_heads", "dim"}));
    TRY(table.within(peaks, row, "time_us", "bf16",
                     causal_flops(attention.batch * attention.heads, attention.tokens, 2 * real(attention.dim)),
                     attention.seconds));
    rows.push_back(std::move(attention));
    return {};
  };
  return components::read_rows<AttentionRow>(
      path, {"software", "batch", "tokens", "heads", "kv_heads", "dim", "time_us"}, read);
}

double TrainingAttentionRow::keys_per_query() const {
  const double length = real(keys), seen = window > 0 ? std::min(length, real(window)) : length;
  return mask == "causal" ? seen - seen * seen / (2 * length) : seen;
}

model::Result<std::vector<TrainingAttentionRow>> load_training_attention_rows(const std::string& path,
                                                                              const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    const CsvTable& csv = table.csv();
    TrainingAttentionRow attention;
    attention.software = TRY(table.name(row, "software"));
    attention.format = TRY(table.one_of(row, "format", {"bf16", "fp8", "mxfp8"}));
    attention.backward = TRY(table.one_of(row, "pass", {"forward", "backward"})) == "backward";
    attention.deterministic = TRY(table.one_of(row, "sums", {"any_order", "deterministic"})) == "deterministic";
    attention.mask = TRY(table.one_of(row, "mask", {"causal", "full"}));
    attention.batch = TRY(csv.whole(row, "batch"));
    attention.heads = TRY(csv.whole(row, "heads"));
    attention.kv_heads = TRY(csv.whole(row, "kv_heads"));
    attention.qk_dim = TRY(csv.whole(row, "qk_dim"));
    attention.v_dim = TRY(csv.whole(row, "v_dim"));
    attention.queries = TRY(csv.whole(row, "queries"));
    attention.keys = TRY(csv.whole(row, "keys"));
    if (csv.text(row, "window") != "none") attention.window = TRY(csv.whole(row, "window"));
    attention.seconds = TRY(table.seconds(row, "time_us"));
    if (attention.heads % attention.kv_heads != 0)
      return tl::unexpected(csv.error(row, "kv_heads", fmt::format("{} heads are no multiple of it", attention.heads)));
    TRY(table.first(row, {"software", "format", "pass", "sums", "mask", "window", "batch", "heads", "kv_heads",
                          "qk_dim", "v_dim", "queries", "keys"}));
    const double dims = attention.backward ? 3 * real(attention.qk_dim) + 2 * real(attention.v_dim)
                                           : real(attention.qk_dim + attention.v_dim);
    const double pairs = real(attention.batch * attention.heads) * real(attention.queries) * attention.keys_per_query();
    const std::string format = attention.format == "mxfp8" ? "fp8" : attention.format;
    TRY(table.within(peaks, row, "time_us", format, 2 * dims * pairs, attention.seconds));
    rows.push_back(std::move(attention));
    return {};
  };
  return components::read_rows<TrainingAttentionRow>(
      path,
      {"software", "format", "pass", "sums", "mask", "window", "batch", "heads", "kv_heads", "qk_dim", "v_dim",
       "queries", "keys", "time_us"},
      read);
}

model::Result<std::vector<MlaRow>> load_mla_rows(const std::string& path, const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    const CsvTable& csv = table.csv();
    MlaRow mla;
    mla.software = TRY(table.name(row, "software"));
    mla.part = TRY(table.one_of(row, "part", {"core", "block"}));
    mla.format = csv.text(row, "format");
    const auto format = TRY(attention_format(table, row, mla));
    mla.batch = TRY(csv.whole(row, "batch"));
    mla.tokens = TRY(csv.whole(row, "tokens"));
    mla.heads = TRY(csv.whole(row, "heads"));
    mla.seconds = TRY(table.seconds(row, "time_us"));
    TRY(table.first(row, {"software", "part", "format", "batch", "tokens", "heads"}));
    TRY(table.within(peaks, row, "time_us", format,
                     causal_flops(mla.batch * mla.heads, mla.tokens, mla_qk_dim + mla_v_dim), mla.seconds));
    rows.push_back(std::move(mla));
    return {};
  };
  return components::read_rows<MlaRow>(path, {"software", "part", "format", "batch", "tokens", "heads", "time_us"},
                                       read);
}

model::Result<std::vector<CachedAttentionRow>> load_cached_attention_rows(const std::string& path,
                                                                          const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row,
                        std::vector<CachedAttentionRow>& rows) -> model::Result<void> {
    const CsvTable& csv = table.csv();
    CachedAttentionRow attention;
    attention.software = TRY(table.name(row, "software"));
    attention.format = TRY(table.one_of(row, "cache", {"bf16", "fp8"}));
    attention.heads = TRY(csv.whole(row, "heads"));
    attention.kv_heads = TRY(csv.whole(row, "kv_heads"));
    attention.qk_dim = TRY(csv.whole(row, "qk_dim"));
    attention.v_dim = TRY(csv.whole(row, "v_dim"));
    attention.queries = TRY(csv.whole(row, "queries"));
    attention.batch = TRY(csv.whole(row, "batch"));
    if (attention.heads % attention.kv_heads != 0)
      return tl::unexpected(csv.error(row, "kv_heads", fmt::format("{} heads are no multiple of it", attention.heads)));
    TRY(table.first(row, {"software", "cache", "heads", "kv_heads", "qk_dim", "v_dim", "queries", "batch"}));
    const auto columns = TRY(table.filled_columns(row, "keys"));
    for (const auto& [keys, column] : columns) {
      attention.keys = keys;
      attention.seconds = TRY(table.seconds(row, column));
      const double flops = 2 * real(attention.batch * attention.queries * attention.heads) * real(keys) *
                           real(attention.qk_dim + attention.v_dim);
      TRY(table.within(peaks, row, column, attention.format, flops, attention.seconds));
      rows.push_back(attention);
    }
    return {};
  };
  return components::read_rows<CachedAttentionRow>(
      path, {"software", "cache", "heads", "kv_heads", "qk_dim", "v_dim", "queries", "batch"}, read);
}

model::Result<std::vector<ExpertRow>> load_expert_rows(const std::string& path, const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    const CsvTable& csv = table.csv();
    ExpertRow experts;
    experts.software = TRY(table.name(row, "software"));
    experts.kernel = TRY(table.name(row, "kernel"));
    experts.format = TRY(table.one_of(row, "format", {"bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"}));
    experts.distribution = TRY(table.one_of(row, "distribution", {"balanced", "power_law_1.2"}));
    experts.tokens = TRY(csv.whole(row, "tokens"));
    experts.hidden = TRY(csv.whole(row, "hidden"));
    experts.ffn = TRY(csv.whole(row, "ffn"));
    experts.top_k = TRY(csv.whole(row, "top_k"));
    experts.experts = TRY(csv.whole(row, "experts"));
    experts.expert_parallel = TRY(csv.whole(row, "expert_parallel"));
    experts.seconds = TRY(table.seconds(row, "time_us"));
    if (experts.top_k > experts.experts)
      return tl::unexpected(csv.error(row, "top_k", fmt::format("more than the {} experts", experts.experts)));
    TRY(table.first(row, {"software", "kernel", "format", "distribution", "tokens", "hidden", "ffn", "top_k", "experts",
                          "expert_parallel"}));
    // Gate, up and down over the mean number of rows; the rank with most has more.
    const double flops = 6 * real(experts.tokens * experts.top_k) / real(experts.expert_parallel) *
                         real(experts.hidden) * real(experts.ffn);
    TRY(table.within(peaks, row, "time_us", experts.format, flops, experts.seconds));
    rows.push_back(std::move(experts));
    return {};
  };
  return components::read_rows<ExpertRow>(path,
                                          {"software", "kernel", "format", "distribution", "tokens", "hidden", "ffn",
                                           "top_k", "experts", "expert_parallel", "time_us"},
                                          read);
}

}  // namespace plumbline::calibrate
