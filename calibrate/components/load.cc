#include "calibrate/components/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "calibrate/components/detail/component_table.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using components::Column;
using components::read_rows;

// A column of the name of the field that it fills, with the texts that are known.
#define COLUMN(field, ...) \
  Column<Row> { #field, &Row::field __VA_OPT__(, {__VA_ARGS__}) }

const std::vector<std::string_view> gemm_formats = {"bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"};

// Parses "1234;695": microseconds and watts.
model::Result<void> read_time_and_power(const CsvTable& csv, std::size_t at, const std::string& column,
                                        HeldGemmRow& gemm) {
  const std::string& cell = csv.text(at, column);
  const auto parts = model::split(cell, ';');
  const auto time = model::parse_number<double>(parts.front());
  const auto power = parts.size() == 2 ? model::parse_number<double>(parts.back()) : std::nullopt;
  if (!time || !power || !(*time > 0) || !(*power > 0) || *time > 1e12 || *power > 1e6)
    return tl::unexpected(csv.error(at, column, fmt::format("'{}' is not 'MICROSECONDS;WATTS'", cell)));
  gemm.seconds = *time * 1e-6;
  gemm.power_w = *power;
  return {};
}

model::Result<void> read_spread(const CsvTable& csv, std::size_t at, GroupedGemmRow& gemm) {
  const auto spread = model::parse_number<double>(csv.text(at, "row_spread"));
  if (!spread || !(*spread >= 0) || *spread > 1)
    return tl::unexpected(csv.error(at, "row_spread", "not a part from 0 to 1"));
  gemm.row_spread = *spread;
  return {};
}

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

// Low-latency kernels have no choice of SMs, and the cell is 0.
model::Result<void> read_sms(const CsvTable& csv, std::size_t at, ExchangeRow& row) {
  if (row.mode == "normal") row.sms = TRY(csv.whole(at, "sms"));
  if (row.mode != "normal" && csv.text(at, "sms") != "0")
    return tl::unexpected(csv.error(at, "sms", "low-latency kernels have no choice of SMs: 0"));
  if (row.top_k > row.experts)
    return tl::unexpected(csv.error(at, "top_k", fmt::format("more than the {} experts", row.experts)));
  if (row.gpus % row.nodes != 0)
    return tl::unexpected(csv.error(at, "gpus", fmt::format("no multiple of {} nodes", row.nodes)));
  return {};
}

// Reads the time of a direction, after which the column is named.
model::Result<void> read_direction(const CsvTable& csv, std::size_t at, const std::string& column, ExchangeRow& row) {
  row.direction = column.substr(0, column.find("_us"));
  return components::read_microseconds(csv, at, column, row);
}

}  // namespace

model::Result<std::vector<GemmRow>> load_gemm_rows(const std::string& path) {
  using Row = GemmRow;
  return read_rows<Row>(path, {.columns = {COLUMN(software), COLUMN(format, gemm_formats), COLUMN(m), COLUMN(n)},
                               .swept = "k",
                               .swept_field = &Row::k});
}

model::Result<std::vector<HeldGemmRow>> load_held_gemm_rows(const std::string& path) {
  using Row = HeldGemmRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), COLUMN(format, gemm_formats), COLUMN(power_limit_w), COLUMN(m), COLUMN(n)},
             .swept = "k",
             .swept_field = &Row::k,
             .read_time = read_time_and_power});
}

model::Result<std::vector<GroupedGemmRow>> load_grouped_gemm_rows(const std::string& path) {
  using Row = GroupedGemmRow;
  return read_rows<Row>(path, {.columns = {COLUMN(software), COLUMN(format, gemm_formats), Column<Row>("row_spread"),
                                           COLUMN(groups), COLUMN(m), COLUMN(n), COLUMN(k)},
                               .finish = read_spread});
}

model::Result<std::vector<AttentionRow>> load_attention_rows(const std::string& path) {
  using Row = AttentionRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), COLUMN(batch), COLUMN(tokens), COLUMN(heads), COLUMN(kv_heads), COLUMN(dim)},
             .finish = check_heads<Row>});
}

double TrainingAttentionRow::keys_per_query() const {
  const double length = static_cast<double>(keys);
  const double seen = window > 0 ? std::min(length, static_cast<double>(window)) : length;
  return mask == "causal" ? seen - seen * seen / (2 * length) : seen;
}

model::Result<std::vector<TrainingAttentionRow>> load_training_attention_rows(const std::string& path) {
  using Row = TrainingAttentionRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), COLUMN(format, "bf16", "fp8", "mxfp8"),
                         Column<Row>("pass", &Row::backward, {"forward", "backward"}),
                         Column<Row>("sums", &Row::deterministic, {"any_order", "deterministic"}),
                         COLUMN(mask, "causal", "full"), Column<Row>("window"), COLUMN(batch), COLUMN(heads),
                         COLUMN(kv_heads), COLUMN(qk_dim), COLUMN(v_dim), COLUMN(queries), COLUMN(keys)},
             .finish = read_window});
}

model::Result<std::vector<MlaRow>> load_mla_rows(const std::string& path) {
  using Row = MlaRow;
  return read_rows<Row>(path, {.columns = {COLUMN(software), COLUMN(part, "core", "block"), COLUMN(format),
                                           COLUMN(batch), COLUMN(tokens), COLUMN(heads)},
                               .finish = check_format});
}

model::Result<std::vector<CachedAttentionRow>> load_cached_attention_rows(const std::string& path) {
  using Row = CachedAttentionRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), Column<Row>("cache", &Row::format, {"bf16", "fp8"}), COLUMN(heads),
                         COLUMN(kv_heads), COLUMN(qk_dim), COLUMN(v_dim), COLUMN(queries), COLUMN(batch)},
             .swept = "keys",
             .swept_field = &Row::keys,
             .finish = check_heads<Row>});
}

model::Result<std::vector<ExpertRow>> load_expert_rows(const std::string& path) {
  using Row = ExpertRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), COLUMN(kernel), COLUMN(format, gemm_formats),
                         COLUMN(distribution, "balanced", "power_law_1.2"), COLUMN(tokens), COLUMN(hidden), COLUMN(ffn),
                         COLUMN(top_k), COLUMN(experts), COLUMN(expert_parallel)},
             .finish = check_experts});
}

model::Result<std::vector<CollectiveRow>> load_collective_rows(const std::string& path) {
  using Row = CollectiveRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), COLUMN(op, "all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
                         COLUMN(gpus), COLUMN(bytes)}});
}

model::Result<std::vector<ExchangeRow>> load_exchange_rows(const std::string& path) {
  using Row = ExchangeRow;
  return read_rows<Row>(
      path, {.columns = {COLUMN(software), COLUMN(mode, "normal", "low_latency"), COLUMN(nodes), COLUMN(gpus),
                         COLUMN(tokens), COLUMN(hidden), COLUMN(top_k), COLUMN(experts), Column<Row>("sms")},
             .times = {"dispatch_us", "combine_us"},
             .finish = read_sms,
             .read_time = read_direction});
}

model::Result<std::vector<ExchangeRow>> load_printed_exchange_rows(const std::string& path) {
  constexpr std::int64_t gpus_per_node = 8, usual_experts = 288;  // num_experts of tests/test_low_latency.py
  const auto csv = TRY(CsvTable::read(path, {"library", "version", "hardware", "kernel_mode", "ep", "tokens_per_rank",
                                             "hidden", "topk", "dispatch_us", "combine_us"}));
  std::vector<ExchangeRow> rows;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    if (csv.text(row, "kernel_mode") != "low-latency") continue;
    ExchangeRow exchange;
    exchange.software =
        fmt::format("{} {} {}", csv.text(row, "library"), csv.text(row, "version"), csv.text(row, "hardware"));
    exchange.mode = "low_latency";
    exchange.gpus = TRY(csv.whole(row, "ep"));
    exchange.nodes = (exchange.gpus + gpus_per_node - 1) / gpus_per_node;
    exchange.tokens = TRY(csv.whole(row, "tokens_per_rank"));
    exchange.hidden = TRY(csv.whole(row, "hidden"));
    exchange.top_k = TRY(csv.whole(row, "topk"));
    exchange.experts = usual_experts;
    for (const char* direction : {"dispatch_us", "combine_us"}) {
      TRY(read_direction(csv, row, direction, exchange));
      rows.push_back(exchange);
    }
  }
  return rows;
}

model::Result<std::vector<TrayExchangeRow>> load_tray_exchange_rows(const std::string& path) {
  using Row = TrayExchangeRow;
  return read_rows<Row>(path,
                        {.columns = {COLUMN(kernel, "NVLinkTwoSided", "NVLinkOneSided"),
                                     COLUMN(direction, "prepare", "dispatch", "combine", "combine_low_precision"),
                                     COLUMN(format, "bf16", "fp8", "nvfp4"), COLUMN(expert_parallel), COLUMN(tokens)}});
}

model::Result<std::size_t> check_component_table(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const auto size = [](const auto& rows) { return rows.size(); };
  if (name == "gemm" || name == "decode_gemm") return load_gemm_rows(path).map(size);
  if (name == "gemm_held") return load_held_gemm_rows(path).map(size);
  if (name == "attention") return load_attention_rows(path).map(size);
  if (name == "attention_training") return load_training_attention_rows(path).map(size);
  if (name == "mla") return load_mla_rows(path).map(size);
  if (name == "decode_attention" || name == "decode_mla") return load_cached_attention_rows(path).map(size);
  if (name == "decode_grouped") return load_grouped_gemm_rows(path).map(size);
  if (name == "experts" || name == "decode_experts") return load_expert_rows(path).map(size);
  if (name == "collectives" || name == "custom_all_reduce") return load_collective_rows(path).map(size);
  if (name == "exchange") return load_exchange_rows(path).map(size);
  if (name == "nvl72") return load_tray_exchange_rows(path).map(size);
  return model::wrong_input_at(
      path, 0, "", fmt::format("no component table is named '{}'", name),
      model::known_names(name, {"gemm", "decode_gemm", "decode_grouped", "gemm_held", "attention", "attention_training",
                                "mla", "decode_attention", "decode_mla", "experts", "decode_experts", "collectives",
                                "custom_all_reduce", "exchange", "nvl72"}));
}

}  // namespace plumbline::calibrate
