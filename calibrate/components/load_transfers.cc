#include <fmt/format.h>

#include <filesystem>

#include "calibrate/components/detail/component_table.h"
#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"

namespace plumbline::calibrate {
namespace {

using components::ComponentTable;

// Returns the shape of a DeepEP call; low-latency kernels have no choice of SMs, and the cell is 0.
model::Result<ExchangeRow> exchange_of(const ComponentTable& table, std::size_t row) {
  const CsvTable& csv = table.csv();
  ExchangeRow exchange;
  exchange.software = TRY(table.name(row, "software"));
  exchange.mode = TRY(table.one_of(row, "mode", {"normal", "low_latency"}));
  exchange.nodes = TRY(csv.whole(row, "nodes"));
  exchange.gpus = TRY(csv.whole(row, "gpus"));
  exchange.tokens = TRY(csv.whole(row, "tokens"));
  exchange.hidden = TRY(csv.whole(row, "hidden"));
  exchange.top_k = TRY(csv.whole(row, "top_k"));
  exchange.experts = TRY(csv.whole(row, "experts"));
  if (exchange.mode == "normal") exchange.sms = TRY(csv.whole(row, "sms"));
  if (exchange.mode != "normal" && csv.text(row, "sms") != "0")
    return tl::unexpected(csv.error(row, "sms", "low-latency kernels have no choice of SMs: 0"));
  if (exchange.top_k > exchange.experts)
    return tl::unexpected(csv.error(row, "top_k", fmt::format("more than the {} experts", exchange.experts)));
  if (exchange.gpus % exchange.nodes != 0)
    return tl::unexpected(csv.error(row, "gpus", fmt::format("no multiple of {} nodes", exchange.nodes)));
  return exchange;
}

}  // namespace

model::Result<std::vector<CollectiveRow>> load_collective_rows(const std::string& path) {
  const auto read = [](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    CollectiveRow collective;
    collective.software = TRY(table.name(row, "software"));
    collective.op = TRY(table.one_of(row, "op", {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}));
    collective.gpus = TRY(table.csv().whole(row, "gpus"));
    collective.bytes = TRY(table.csv().whole(row, "bytes"));
    collective.seconds = TRY(table.seconds(row, "time_us"));
    TRY(table.first(row, {"software", "op", "gpus", "bytes"}));
    rows.push_back(std::move(collective));
    return {};
  };
  return components::read_rows<CollectiveRow>(path, {"software", "op", "gpus", "bytes", "time_us"}, read);
}

model::Result<std::vector<ExchangeRow>> load_exchange_rows(const std::string& path) {
  const auto read = [](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    ExchangeRow exchange = TRY(exchange_of(table, row));
    TRY(table.first(row, {"software", "mode", "nodes", "gpus", "tokens", "hidden", "top_k", "experts", "sms"}));
    for (const char* direction : {"dispatch", "combine"}) {
      exchange.direction = direction;
      exchange.seconds = TRY(table.seconds(row, exchange.direction + "_us"));
      rows.push_back(exchange);
    }
    return {};
  };
  return components::read_rows<ExchangeRow>(
      path,
      {"software", "mode", "nodes", "gpus", "tokens", "hidden", "top_k", "experts", "sms", "dispatch_us", "combine_us"},
      read);
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
    for (const char* direction : {"dispatch", "combine"}) {
      exchange.direction = direction;
      exchange.seconds = TRY(csv.positive(row, exchange.direction + "_us")) * 1e-6;
      rows.push_back(exchange);
    }
  }
  return rows;
}

model::Result<std::vector<TrayExchangeRow>> load_tray_exchange_rows(const std::string& path) {
  const auto read = [](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    TrayExchangeRow exchange;
    exchange.kernel = TRY(table.one_of(row, "kernel", {"NVLinkTwoSided", "NVLinkOneSided"}));
    exchange.direction =
        TRY(table.one_of(row, "direction", {"prepare", "dispatch", "combine", "combine_low_precision"}));
    exchange.format = TRY(table.one_of(row, "format", {"bf16", "fp8", "nvfp4"}));
    exchange.expert_parallel = TRY(table.csv().whole(row, "expert_parallel"));
    exchange.tokens = TRY(table.csv().whole(row, "tokens"));
    exchange.seconds = TRY(table.seconds(row, "time_us"));
    TRY(table.first(row, {"kernel", "direction", "format", "expert_parallel", "tokens"}));
    rows.push_back(std::move(exchange));
    return {};
  };
  return components::read_rows<TrayExchangeRow>(
      path, {"kernel", "direction", "format", "expert_parallel", "tokens", "time_us"}, read);
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
