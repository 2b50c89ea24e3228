#include <fmt/format.h>

#include <filesystem>

#include "calibrate/components/detail/component_table.h"
#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"

namespace plumbline::calibrate {
namespace {

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

model::Result<std::vector<CollectiveRow>> load_collective_rows(const std::string& path) {
  using Row = CollectiveRow;
  return components::read_rows<Row>(
      path, {.columns = {{"software", &Row::software},
                         {"op", &Row::op, {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}},
                         {"gpus", &Row::gpus},
                         {"bytes", &Row::bytes}}});
}

model::Result<std::vector<ExchangeRow>> load_exchange_rows(const std::string& path) {
  using Row = ExchangeRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"mode", &Row::mode, {"normal", "low_latency"}},
                                                       {"nodes", &Row::nodes},
                                                       {"gpus", &Row::gpus},
                                                       {"tokens", &Row::tokens},
                                                       {"hidden", &Row::hidden},
                                                       {"top_k", &Row::top_k},
                                                       {"experts", &Row::experts},
                                                       {"sms"}},
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
  return components::read_rows<Row>(
      path, {.columns = {{"kernel", &Row::kernel, {"NVLinkTwoSided", "NVLinkOneSided"}},
                         {"direction", &Row::direction, {"prepare", "dispatch", "combine", "combine_low_precision"}},
                         {"format", &Row::format, {"bf16", "fp8", "nvfp4"}},
                         {"expert_parallel", &Row::expert_parallel},
                         {"tokens", &Row::tokens}}});
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
