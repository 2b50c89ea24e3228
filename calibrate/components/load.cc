#include "calibrate/components/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "calibrate/measurement/csv_table.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

// Returns the text after "# key:" in the first line that has it, with the line's number.
struct HeadingLine {
  std::string value;
  int line = 0;
};
std::optional<HeadingLine> heading_line(std::string_view text, const std::string& key) {
  const std::string start = "# " + key + ":";
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    if (line.starts_with(start)) return HeadingLine{std::string(model::trimmed(line.substr(start.size()))), number};
  }
  return std::nullopt;
}

// A column and the field that it fills: text that is not empty, or one of `known`; whether it is the second of two
// known texts; a whole number; a number above 0.
template <class Row>
struct Column {
  using Field = std::variant<std::monostate, std::string Row::*, bool Row::*, std::int64_t Row::*, double Row::*>;
  Column(std::string_view of, Field to = {}, std::vector<std::string_view> texts = {})
      : name(of), field(to), known(std::move(texts)) {}

  std::string_view name;
  Field field;
  std::vector<std::string_view> known;
};

// Parses a time in microseconds.
template <class Row>
model::Result<void> read_microseconds(const CsvTable& csv, std::size_t at, const std::string& column, Row& row) {
  constexpr double microsecond = 1e-6;
  row.seconds = TRY(csv.positive(at, column)) * microsecond;
  return {};
}

template <class Row>
struct TableForm {
  std::vector<Column<Row>> columns;              // of a shape, but for numbers above 0
  std::vector<std::string> times = {"time_us"};  // columns, each the time of a row of its own
  std::string_view swept = {};                   // there may be columns of times named by its
  std::int64_t Row::*swept_field = nullptr;      // values in place of time_us
  model::Result<void> (*finish)(const CsvTable&, std::size_t at, Row&) = nullptr;  // reads the rest, and checks
  model::Result<void> (*read_time)(const CsvTable&, std::size_t at, const std::string& column,
                                   Row&) = read_microseconds<Row>;
};

// A file with the heading lines "# gpu: NAME" and "# rows: NUMBER".
struct ComponentTable {
  CsvTable csv;
  std::size_t stated_rows = 0;
};

// Input errors name the file, and the line where there is one: those of CsvTable::read, no such heading, and another
// GPU than the name of the file's folder.
model::Result<ComponentTable> read_component_table(const std::string& path,
                                                   const std::vector<std::string_view>& columns) {
  const auto text = TRY(model::read_text_file(path));
  ComponentTable table{TRY(CsvTable::read(path, columns))};
  const auto gpu = heading_line(text, "gpu");
  const auto rows = heading_line(text, "rows");
  if (!gpu || !rows)
    return model::wrong_input_at(path, 0, gpu ? "rows" : "gpu", "the heading does not state it",
                                 "a table begins with '# gpu: NAME' and '# rows: NUMBER'");
  const std::string folder = std::filesystem::path(path).parent_path().filename().string();
  if (gpu->value != folder)
    return model::wrong_input_at(
        path, gpu->line, "gpu", fmt::format("the heading says {}, the folder is {}", gpu->value, folder),
        "tables of one GPU lie in the folder of its name; 'plumbline import components' writes them there");
  const auto stated = model::parse_number<std::size_t>(rows->value);
  if (!stated) return model::wrong_input_at(path, rows->line, "rows", fmt::format("'{}' is no number", rows->value));
  table.stated_rows = *stated;
  return table;
}

// Returns text that is not empty, or one of `known` where there are any; otherwise an error with the nearest of them.
model::Result<std::string> read_text(const CsvTable& csv, std::size_t at, std::string_view column,
                                     const std::vector<std::string_view>& known) {
  const std::string& text = csv.text(at, column);
  if (known.empty() ? !text.empty() : std::ranges::find(known, text) != known.end()) return text;
  if (known.empty()) return csv.wrong(at, column, "the cell is empty");
  return csv.wrong(at, column, fmt::format("unknown '{}'", text),
                   model::known_names(text, {known.begin(), known.end()}));
}

// Returns the row's columns that are named by whole numbers (values of `what`) and hold a time, or its value of `what`
// where the file has this column and time_us; an error for a file without either.
struct SweptTime {
  std::int64_t value = 0;
  std::string column;
};
model::Result<std::vector<SweptTime>> swept_times(const CsvTable& csv, const std::string& path, std::size_t at,
                                                  std::string_view what) {
  if (csv.has(what) && csv.has("time_us")) return std::vector<SweptTime>{{TRY(csv.whole(at, what)), "time_us"}};
  std::vector<SweptTime> found;
  bool any = false;
  for (const std::string& column : csv.columns()) {
    const auto value = model::parse_number<std::int64_t>(column);
    if (!value || *value <= 0) continue;
    any = true;
    if (!csv.text(at, column).empty()) found.push_back({*value, column});
  }
  if (any) return found;
  return model::wrong_input_at(
      path, 0, std::string(what), "no column of times",
      fmt::format("columns after the last key are named by {}, or are {} and time_us", what, what));
}

template <class Row>
model::Result<void> read_cell(const CsvTable& csv, std::size_t at, const Column<Row>& column, Row& row) {
  if (const auto* text = std::get_if<std::string Row::*>(&column.field))
    row.** text = TRY(read_text(csv, at, column.name, column.known));
  if (const auto* flag = std::get_if<bool Row::*>(&column.field))
    row.** flag = TRY(read_text(csv, at, column.name, column.known)) == column.known.back();
  if (const auto* count = std::get_if<std::int64_t Row::*>(&column.field))
    row.** count = TRY(csv.whole(at, column.name));
  if (const auto* number = std::get_if<double Row::*>(&column.field))
    row.** number = TRY(csv.positive(at, column.name));
  return {};
}

template <class Row>
model::Result<std::vector<Row>> read_rows(const std::string& path, const TableForm<Row>& form) {
  const bool sweeps = !form.swept.empty();
  std::vector<std::string_view> needed;
  for (const Column<Row>& column : form.columns) needed.push_back(column.name);
  if (!sweeps) needed.insert(needed.end(), form.times.begin(), form.times.end());
  const auto [csv, stated_rows] = TRY(read_component_table(path, needed));
  std::vector<SweptTime> times;
  for (const std::string& column : form.times) times.push_back({0, column});
  std::vector<Row> rows;
  std::set<std::string> seen;
  for (std::size_t at = 0; at < csv.rows(); ++at) {
    Row row;
    std::string shape;
    for (const Column<Row>& column : form.columns) {
      TRY(read_cell(csv, at, column, row));
      if (!std::holds_alternative<double Row::*>(column.field)) shape += csv.text(at, column.name) + ",";
    }
    if (form.finish != nullptr) TRY(form.finish(csv, at, row));
    if (sweeps) times = TRY(swept_times(csv, path, at, form.swept));
    for (const auto& [value, column] : times) {
      if (sweeps) row.*form.swept_field = value;
      TRY(form.read_time(csv, at, column, row));
      if (!seen.insert(shape + (sweeps ? std::to_string(value) : column)).second)
        return csv.wrong(at, "", "the shape occurs twice");
      rows.push_back(row);
    }
  }
  if (rows.size() == stated_rows) return rows;
  return model::wrong_input_at(path, 0, "rows",
                               fmt::format("the heading states {} rows, the file has {}", stated_rows, rows.size()),
                               "a part of the file is missing; import it again");
}

// A column of the name of the field that it fills, with the texts that are known.
#define COLUMN(field, ...) \
  Column<Row> { #field, &Row::field __VA_OPT__(, {__VA_ARGS__}) }

const std::vector<std::string_view> gemm_formats = {"bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"};

// Parses "1234;695": microseconds and watts.
model::Result<void> read_time_and_power(const CsvTable& csv, std::size_t at, const std::string& column,
                                        HeldGemmRow& gemm) {
  const std::string& cell = csv.text(at, column);
  const auto parts = model::split_at(cell, ';');
  const auto time = model::parse_number<double>(parts.front());
  const auto power = parts.size() == 2 ? model::parse_number<double>(parts.back()) : std::nullopt;
  if (!time || !power || !(*time > 0) || !(*power > 0) || *time > 1e12 || *power > 1e6)
    return csv.wrong(at, column, fmt::format("'{}' is not 'MICROSECONDS;WATTS'", cell));
  gemm.seconds = *time * 1e-6;
  gemm.power_w = *power;
  return {};
}

model::Result<void> read_spread(const CsvTable& csv, std::size_t at, GroupedGemmRow& gemm) {
  const auto spread = model::parse_number<double>(csv.text(at, "row_spread"));
  if (!spread || !(*spread >= 0) || *spread > 1) return csv.wrong(at, "row_spread", "not a part from 0 to 1");
  gemm.row_spread = *spread;
  return {};
}

// Checks that groups of heads share the keys and values.
template <class Row>
model::Result<void> check_heads(const CsvTable& csv, std::size_t at, Row& row) {
  if (row.heads % row.kv_heads == 0) return {};
  return csv.wrong(at, "kv_heads", fmt::format("{} heads are no multiple of it", row.heads));
}

model::Result<void> read_window(const CsvTable& csv, std::size_t at, TrainingAttentionRow& row) {
  if (csv.text(at, "window") != "none") row.window = TRY(csv.whole(at, "window"));
  return check_heads(csv, at, row);
}

// Checks "bf16" of a core, "bf16/fp8/nvfp4" (attention, cache, GEMMs) of a block.
model::Result<void> check_format(const CsvTable& csv, std::size_t at, MlaRow& mla) {
  const auto parts = model::split_at(mla.format, '/');
  const auto known = [](std::string_view format) {
    return format == "bf16" || format == "fp8" || format == "fp8_block" || format == "nvfp4";
  };
  if (parts.size() == (mla.part == "core" ? 1u : 3u) && std::ranges::all_of(parts, known)) return {};
  return csv.wrong(
      at, "format",
      fmt::format("'{}' is neither the format of a core (bf16, fp8) nor attention/cache/GEMMs", mla.format));
}

model::Result<void> check_experts(const CsvTable& csv, std::size_t at, ExpertRow& row) {
  if (row.top_k <= row.experts) return {};
  return csv.wrong(at, "top_k", fmt::format("more than the {} experts", row.experts));
}

// Low-latency kernels have no choice of SMs, and the cell is 0.
model::Result<void> read_sms(const CsvTable& csv, std::size_t at, ExchangeRow& row) {
  if (row.mode == "normal") row.sms = TRY(csv.whole(at, "sms"));
  if (row.mode != "normal" && csv.text(at, "sms") != "0")
    return csv.wrong(at, "sms", "low-latency kernels have no choice of SMs: 0");
  if (row.top_k > row.experts) return csv.wrong(at, "top_k", fmt::format("more than the {} experts", row.experts));
  if (row.gpus % row.nodes != 0) return csv.wrong(at, "gpus", fmt::format("no multiple of {} nodes", row.nodes));
  return {};
}

// Reads the time of a direction, after which the column is named.
model::Result<void> read_direction(const CsvTable& csv, std::size_t at, const std::string& column, ExchangeRow& row) {
  row.direction = column.substr(0, column.find("_us"));
  return read_microseconds(csv, at, column, row);
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

model::Recurrence ScanRow::shape() const {
  using Kind = model::RecurrenceKind;
  return {.kind = recurrence == "state_space"   ? Kind::state_space
                  : recurrence == "gated_delta" ? Kind::gated_delta
                                                : Kind::channel_delta,
          .key_heads = key_heads,
          .value_heads = value_heads,
          .key_dim = key_dim,
          .value_dim = value_dim,
          .chunk = chunk};
}

model::Result<std::vector<ScanRow>> load_scan_rows(const std::string& path) {
  using Row = ScanRow;
  return read_rows<Row>(
      path,
      {.columns = {COLUMN(software), COLUMN(recurrence, "gated_delta", "channel_delta", "state_space"),
                   Column<Row>("pass", &Row::backward, {"forward", "backward"}),
                   Column<Row>("norms", &Row::norms_inside, {"before", "inside"}), COLUMN(sequences), COLUMN(tokens),
                   COLUMN(key_heads), COLUMN(value_heads), COLUMN(key_dim), COLUMN(value_dim), COLUMN(chunk)}});
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

#undef COLUMN

model::Result<std::size_t> check_component_table(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const auto size = [](const auto& rows) { return rows.size(); };
  if (name == "gemm" || name == "decode_gemm") return load_gemm_rows(path).map(size);
  if (name == "gemm_held") return load_held_gemm_rows(path).map(size);
  if (name == "attention") return load_attention_rows(path).map(size);
  if (name == "attention_training") return load_training_attention_rows(path).map(size);
  if (name == "scan") return load_scan_rows(path).map(size);
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
                                "custom_all_reduce", "exchange", "nvl72", "scan"}));
}

}  // namespace plumbline::calibrate
