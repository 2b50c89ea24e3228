// Original component tables, their rows as records, and the files that are made of these.
#include "calibrate/import/components/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/measurement/csv_table.h"
#include "model/base/distinct.h"
#include "model/base/error.h"
#include "model/base/statistics.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace components {
namespace {

// One row of an original table. Keys are in the order of the layout; times are in microseconds.
struct Record {
  std::vector<std::string> keys;
  std::vector<double> values;
  std::string left_out;  // the reason; empty: it is kept
};

struct Layout {
  std::string_view file;                 // "attention.csv"
  std::string_view what;                 // what the file holds, for its heading
  std::vector<std::string_view> needed;  // columns that the original has, by which it is recognized
  std::vector<std::string_view> keys, values;
  std::string_view axis;  // the key along which rows are thinned; empty: all stay
  int digits = 5;         // significant digits of times
  model::Result<Record> (*record)(const CsvTable& csv, std::size_t row) = nullptr;
};

struct TableHeading {
  std::string gpu;                                 // folder
  std::set<std::string> names;                     // of the GPU in the originals
  std::set<std::string> sources, licenses, notes;  // lines
  std::size_t read = 0;                            // rows of the originals
  std::size_t merged = 0;                          // rows that are gone because another has their shape
  std::map<std::string, std::size_t> thinned;      // rows left out, by the axis of interpolation
  std::map<std::string, std::size_t> losses;       // rows left out, by reason
};

// Collects the keys and values of one row. The first error stays and is returned at the end.
class Reader {
 public:
  Reader(const CsvTable& csv, std::size_t row) : csv_(csv), row_(row) {}

  const std::string& text(std::string_view column) const { return csv_.text(row_, column); }
  bool is(std::string_view column, std::string_view value) const { return text(column) == value; }

  Reader& key(std::string value) {
    record_.keys.push_back(std::move(value));
    return *this;
  }
  Reader& key_of(std::string_view column) {
    if (text(column).empty()) fail(column, "the cell is empty");
    return key(text(column));
  }
  Reader& wholes(std::initializer_list<std::string_view> columns) {
    for (const std::string_view column : columns) {
      const auto value = csv_.whole(row_, column);
      if (!value) fail(value.error());
      key(value ? fmt::format("{}", *value) : "");
    }
    return *this;
  }
  // Takes a number format under this project's name.
  Reader& format(std::string_view column) { return key(format_of(column)); }
  Reader& value(std::string_view column, double unit = 1) {
    const auto value = csv_.positive(row_, column);
    if (!value) fail(value.error());
    record_.values.push_back(value ? *value * unit : 0);
    return *this;
  }
  Reader& leave_out(bool condition, std::string_view reason) {
    if (condition && record_.left_out.empty()) record_.left_out = reason;
    return *this;
  }

  std::string format_of(std::string_view column) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> names = {
        {{"bfloat16", "bf16"},
         {"bf16", "bf16"},
         {"fp8", "fp8"},
         {"fp8_block", "fp8_block"},
         {"nvfp4", "nvfp4"},
         {"mxfp4", "mxfp4"},
         {"mxfp8", "mxfp8"},
         // of aiter's tuned tables
         {"fp8 blockscale", "fp8_block"},
         {"int8/fp8 a8w8", "fp8"},
         {"mxfp4 (a4w4", "mxfp4"}}};
    const std::string& name = text(column);
    for (const auto& [original, ours] : names)
      if (name == original || (original.size() > 3 && name.starts_with(std::string(original) + " ")) ||
          (original == "bf16" && name.starts_with("bf16 ")))
        return std::string(ours);
    fail(column, fmt::format("unknown format '{}'", name));
    return "";
  }

  model::Result<Record> finish() {
    if (failed_) return tl::unexpected(error_);
    return std::move(record_);
  }

 private:
  void fail(std::string_view column, std::string message) {
    fail(csv_.wrong(row_, column, std::move(message)).value());
  }
  void fail(model::Error error) {
    if (failed_ || !record_.left_out.empty()) return;  // a row that is left out may lack values
    error_ = std::move(error);
    failed_ = true;
  }

  const CsvTable& csv_;
  std::size_t row_;
  Record record_;
  bool failed_ = false;
  model::Error error_;
};

model::Result<Record> gemm(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.leave_out(row.text("dtype").ends_with("int8"), "INT8, with which nothing trains");
  return row.key_of("software").format("dtype").wholes({"m", "n", "k"}).value("time_us").finish();
}

model::Result<Record> held_gemm(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.key_of("software").format("dtype").wholes({"power_limit_w", "m", "n", "k"});
  return row.value("time_us").value("power_w").finish();
}

model::Result<Record> attention(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.leave_out(row.is("kernel", "flashinfer"), "another, slower kernel (flashinfer) of the same software");
  return row.key_of("software").wholes({"batch", "seq", "heads", "kv_heads", "head_dim"}).value("time_us").finish();
}

// The original states cuDNN as 92700.000 (9.27.0), other libraries without their version. A window cannot be 0.
model::Result<Record> training_attention(const CsvTable& csv, std::size_t index) {
  constexpr double us_per_ms = 1000;
  constexpr std::int64_t of_major = 10000, of_minor = 100;
  Reader row(csv, index);
  row.leave_out(row.text("skipped") == "True" || row.text("success") != "True", "kernels that did not run");
  row.leave_out(row.is("backend", "cudnn_oss"), "cuDNN's open engines (cudnn_oss), which no framework takes");
  std::string software = row.text("backend");
  if (software == "cudnn") {
    const std::int64_t version = csv.whole(index, "cudnn_backend_version").value_or(0);
    software += fmt::format(" {}.{}.{}", version / of_major, version % of_major / of_minor, version % of_minor);
  }
  const std::string& window = row.text("sliding_window_size");
  row.key(software).format("data_type").key(row.is("profile_pass", "bwd") ? "backward" : "forward");
  row.key(row.is("deterministic_bwd", "True") ? "deterministic" : "any_order");
  row.key(row.is("attn_mask", "no_mask") ? "full" : "causal").key(window.empty() ? "none" : window);
  row.wholes({"batch_size", "num_q_heads", "num_kv_heads", "head_dim_qk", "head_dim_vo", "q_seqlen", "kv_seqlen"});
  return row.value("time_ms", us_per_ms).finish();
}

model::Result<Record> mla(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  const bool block = row.is("op", "mla_block_forward");
  const std::string cache = row.format_of("kv_cache_dtype");
  row.leave_out(!row.text("power_w").empty(), "held for seconds at the power limit, not a burst");
  row.leave_out(row.text("gpu").starts_with("A100") && cache != "bf16", "FP8 on a GPU without it: BF16 again");
  row.leave_out(row.is("kernel", "vllm_triton_mla"), "Triton's kernel, at a third of the others' speed");
  row.leave_out(row.text("gpu").starts_with("H100") && !block && cache == "fp8" && row.is("batch", "4") &&
                    row.is("seq", "1024") && row.is("heads", "16"),
                "18 times slower than its neighbors");
  row.key_of("software").key(block ? "block" : "core");
  row.key(block ? fmt::format("{}/{}/{}", row.format_of("dtype"), cache, row.format_of("gemm_dtype")) : cache);
  return row.wholes({"batch", "seq", "heads"}).value("time_us").finish();
}

model::Result<Record> experts(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.leave_out(row.text("software").starts_with("sglang") && !row.is("expert_parallel", "1"),
                "kernels that run over the rows of other ranks too (sglang beyond one rank)");
  row.key_of("software").key_of("kernel").format("dtype").key_of("distribution");
  row.wholes({"tokens_entering", "hidden", "expert_ffn", "topk", "experts", "expert_parallel"});
  return row.value("time_us").finish();
}

model::Result<Record> collective(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.leave_out(!row.is("nodes", "1"), "more than one node");
  std::string software = row.text("software");  // "trtllm/1.3.0rc10" stands for NCCL as TensorRT-LLM links it
  std::ranges::replace(software, '/', ' ');
  row.key(software).key(row.is("op", "alltoall") ? "all_to_all" : row.text("op"));
  return row.wholes({"gpus", "bytes"}).value("time_us").finish();
}

model::Result<Record> exchange(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.leave_out(row.is("nodes", "8"), "8 nodes: a congested run, flat in SMs, its combine waits for milliseconds");
  row.leave_out(row.is("nodes", "2") && row.is("dispatch_sms", "12"),
                "2 nodes with 12 SMs: 1.7 times slower than 8 and 16 SMs let expect");
  row.leave_out(!row.is("dispatch_sms", row.text("combine_sms")), "other SMs for dispatch than for combine");
  row.key_of("software").key("normal");
  row.wholes({"nodes", "gpus", "tokens_per_rank", "hidden", "topk", "experts", "dispatch_sms"});
  return row.value("dispatch_transmit_us").value("combine_transmit_us").finish();
}

// The original does not state the GPUs: a node of its GB200 and GB300 has 4, of the others 8, as in the normal table.
model::Result<Record> low_latency(const CsvTable& csv, std::size_t index) {
  Reader row(csv, index);
  row.leave_out(row.is("gpu", "H200") && row.text("software").ends_with("0.5.6.post2"),
                "copies of the H100's, to the last digit");
  const auto nodes = csv.whole(index, "nodes");
  const int per_node = row.text("gpu").starts_with("GB") ? 4 : 8;
  row.key_of("software").key("low_latency").wholes({"nodes"});
  row.key(nodes ? fmt::format("{}", *nodes * per_node) : "");
  row.wholes({"tokens_per_rank", "hidden", "topk", "experts"}).key("0");
  return row.value("dispatch_us").value("combine_us").finish();
}

model::Result<Record> tray_exchange(const CsvTable& csv, std::size_t index) {
  constexpr std::string_view start = "alltoall_";
  constexpr double us_per_ms = 1000;
  Reader row(csv, index);
  const std::string& op = row.text("op_name");
  row.leave_out(row.is("num_tokens", "1"), "one token: the time of a first launch");
  row.leave_out(!row.is("hidden_size", "7168") || !row.is("topk", "8") || !row.is("num_experts", "256") ||
                    !row.is("distribution", "balanced"),
                "another model than hidden 7168 with 8 of 256 experts in balance");
  row.key_of("kernel_source").key(op.starts_with(start) ? op.substr(start.size()) : op).format("moe_dtype");
  return row.wholes({"moe_ep_size", "num_tokens"}).value("latency", us_per_ms).finish();
}

// Lists of columns are separated by commas.
Layout table_layout(std::string_view file, std::string_view what, std::string_view needed, std::string_view keys,
                    std::string_view values, std::string_view axis, int digits,
                    model::Result<Record> (*record)(const CsvTable&, std::size_t)) {
  return {file,   what,  model::split_at(needed, ','), model::split_at(keys, ','), model::split_at(values, ','), axis,
          digits, record};
}

using Keys = std::vector<std::string>;

bool key_before(const std::string& a, const std::string& b) {
  const auto left = model::parse_number<std::int64_t>(a), right = model::parse_number<std::int64_t>(b);
  return left && right ? *left < *right : a < b;
}
struct Before {
  bool operator()(const Keys& a, const Keys& b) const { return std::ranges::lexicographical_compare(a, b, key_before); }
};

// One series: ln of the axis, and ln of each value by record.
struct Series {
  std::vector<std::size_t> records;
  std::vector<double> x;
  std::vector<std::vector<double>> y;  // by value, then by record
};

// Returns by how much interpolation between the records `left` and `right` misses a record between them.
double missed(const Series& series, std::size_t left, std::size_t right, std::size_t at) {
  const double share = (series.x[at] - series.x[left]) / (series.x[right] - series.x[left]);
  double most = 0;
  for (const std::vector<double>& y : series.y)
    most = std::max(most, std::abs(std::expm1(y[left] + share * (y[right] - y[left]) - y[at])));
  return most;
}

// Returns the record that is missed most, and by how much, or nothing when all are kept.
std::optional<std::pair<std::size_t, double>> worst(const Series& series, const std::set<std::size_t>& kept) {
  std::optional<std::pair<std::size_t, double>> found;
  for (auto right = std::next(kept.begin()); right != kept.end(); ++right) {
    const std::size_t left = *std::prev(right);
    for (std::size_t at = left + 1; at < *right; ++at)
      if (const double error = missed(series, left, *right, at); !found || error > found->second) found = {at, error};
  }
  return found;
}

std::set<std::size_t> kept_of(const Series& series, double tolerance) {
  std::set<std::size_t> kept = {0, series.x.size() - 1};
  while (const auto most = worst(series, kept)) {
    if (most->second <= tolerance) break;
    kept.insert(most->first);
  }
  return kept;
}

// Returns every layout; one whose columns contain those of another stands before it.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      table_layout(
          "gemm_held.csv",
          "GEMMs of m x k by k x n held for a second and more: 'microseconds;watts of the board', a column for each k",
          "gpu,source,software,dtype,m,n,k,time_us,power_w,power_limit_w", "software,format,power_limit_w,m,n,k",
          "time_us,power_w", "", 4, &held_gemm),
      table_layout("gemm.csv", "GEMMs of m x k by k x n in bursts: microseconds",
                   "gpu,source,software,dtype,m,n,k,time_us", "software,format,m,n,k", "time_us", "", 4, &gemm),
      table_layout("attention.csv", "Causal attention, forward, BF16, in bursts",
                   "gpu,source,software,kernel,batch,seq,heads,kv_heads,head_dim,time_us",
                   "software,batch,tokens,heads,kv_heads,dim", "time_us", "batch", 5, &attention),
      table_layout("attention_training.csv", "Attention of training, forward and backward by themselves",
                   "gpu,source,backend,cudnn_backend_version,data_type,attn_mask,sliding_window_size,profile_pass,"
                   "deterministic_bwd,batch_size,num_q_heads,num_kv_heads,head_dim_qk,head_dim_vo,q_seqlen,"
                   "kv_seqlen,time_ms,success,skipped",
                   "software,format,pass,sums,mask,window,batch,heads,kv_heads,qk_dim,v_dim,queries,keys", "time_us",
                   "", 7, &training_attention),
      table_layout("mla.csv", "Multi-head latent attention, forward, in bursts: core, or block with its projections",
                   "gpu,source,software,kernel,op,dtype,kv_cache_dtype,gemm_dtype,batch,seq,heads,time_us,power_w",
                   "software,part,format,batch,tokens,heads", "time_us", "batch", 5, &mla),
      table_layout("experts.csv", "The experts of one rank, forward, in bursts; tokens are those that enter its router",
                   "gpu,source,software,kernel,dtype,tokens_entering,hidden,expert_ffn,topk,experts,"
                   "expert_parallel,distribution,time_us",
                   "software,kernel,format,distribution,tokens,hidden,ffn,top_k,experts,expert_parallel", "time_us",
                   "tokens", 5, &experts),
      table_layout("collectives.csv",
                   "Collectives on one node, half precision, out of place; bytes as nccl-tests counts them",
                   "gpu,source,software,nodes,gpus,op,bytes,time_us", "software,op,gpus,bytes", "time_us", "bytes", 5,
                   &collective),
      table_layout(
          "exchange.csv", "DeepEP's dispatch (FP8) and combine (BF16) without notification; tokens of one rank",
          "gpu,source,software,nodes,gpus,tokens_per_rank,hidden,topk,experts,dispatch_sms,"
          "dispatch_transmit_us,combine_sms,combine_transmit_us",
          "software,mode,nodes,gpus,tokens,hidden,top_k,experts,sms", "dispatch_us,combine_us", "sms", 5, &exchange),
      table_layout("exchange.csv",
                   "DeepEP's dispatch (FP8) and combine (BF16) without notification; tokens of one rank",
                   "gpu,source,software,nodes,tokens_per_rank,hidden,topk,experts,dispatch_us,combine_us",
                   "software,mode,nodes,gpus,tokens,hidden,top_k,experts,sms", "dispatch_us,combine_us", "tokens", 5,
                   &low_latency),
      table_layout(
          "nvl72.csv",
          "TensorRT-LLM's expert all-to-all over NVLink: hidden 7168, 8 of 256 experts, balanced; tokens of one rank",
          "gpu,source,software,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,topk,num_experts,"
          "moe_ep_size,distribution,latency",
          "kernel,direction,format,expert_parallel,tokens", "time_us", "tokens", 5, &tray_exchange),
  };
  return all;
}

// Returns the folder of a GPU by its name in the original ("H100 SXM 80GB": h100), or nothing for a GPU without a
// device file here.
std::string gpu_folder(std::string_view name) {
  if (name.starts_with("MI308X")) return "";
  if (name.starts_with("MI300X")) return "mi300x";  // one table of aiter holds it and the MI325X
  if (name.starts_with("MI350X")) return "mi355x";  // another the MI350X and the MI355X
  return model::lower_case(name.substr(0, name.find_first_of(" /")));
}

enum class Merge { median, least };

// Returns one record for each combination of keys, ordered by keys: the median of each value (of an even number the
// mean of the middle two), or the least. Keys of digits are ordered as numbers.
std::vector<Record> merged(std::vector<Record> records, Merge merge) {
  std::map<Keys, std::vector<std::vector<double>>, Before> by_keys;
  for (Record& record : records) {
    auto& values = by_keys[std::move(record.keys)];
    values.resize(record.values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i].push_back(record.values[i]);
  }
  std::vector<Record> result;
  for (const auto& [keys, values] : by_keys) {
    Record record{keys, {}, ""};
    for (const std::vector<double>& all : values)
      record.values.push_back(merge == Merge::least ? *std::ranges::min_element(all) : model::quantile(all, 0.5));
    result.push_back(std::move(record));
  }
  return result;
}

// Keeps of each series (records that differ in the key `axis` alone) both ends, then repeatedly the record that linear
// interpolation of ln value over ln axis misses most, until none is missed by more than `tolerance`. Takes and returns
// merged records, in their order.
std::vector<Record> thinned(std::vector<Record> records, std::size_t axis, double tolerance) {
  std::map<Keys, Series> all;
  for (std::size_t i = 0; i < records.size(); ++i) {
    Keys rest = records[i].keys;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
    Series& series = all[rest];
    series.records.push_back(i);
    series.x.push_back(std::log(model::parse_number<double>(records[i].keys[axis]).value_or(1)));
    series.y.resize(records[i].values.size());
    for (std::size_t value = 0; value < series.y.size(); ++value)
      series.y[value].push_back(std::log(records[i].values[value]));
  }
  std::set<std::size_t> kept;
  for (const auto& [keys, series] : all)
    for (const std::size_t at : kept_of(series, tolerance)) kept.insert(series.records[at]);
  std::vector<Record> result;
  for (const std::size_t index : kept) result.push_back(std::move(records[index]));
  return result;
}

// Rounds to significant digits and writes without an exponent: 12345.6 with 4 digits is 12350.
std::string rounded(double value, int digits) {
  const auto text = fmt::format("{:.{}g}", value, digits);
  return fmt::format("{:.15g}", model::parse_number<double>(text).value_or(value));
}

// Returns the value's cell: times joined by ';', watts rounded to whole ones.
std::string cell(const Layout& layout, const Record& record) {
  std::string text;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const bool power = layout.values[i] == "power_w";
    text += (i == 0 ? "" : ";") +
            (power ? fmt::format("{:.0f}", record.values[i]) : rounded(record.values[i], layout.digits));
  }
  return text;
}

// A table with a line for all keys but the last, whose values are the columns.
struct Grid {
  std::vector<std::string> columns;
  std::map<std::string, std::map<std::string, std::string>> cells;  // by line, then by column
  std::vector<std::string> lines;                                   // in the order of the records
};

Grid grid_of(const Layout& layout, const std::vector<Record>& records) {
  Grid grid;
  for (const Record& record : records) {
    const std::string line = fmt::format("{}", fmt::join(record.keys.begin(), record.keys.end() - 1, ","));
    if (!grid.cells.contains(line)) grid.lines.push_back(line);
    grid.cells[line][record.keys.back()] = cell(layout, record);
    model::add_distinct(grid.columns, record.keys.back());
  }
  std::ranges::sort(grid.columns, {}, [](const std::string& column) { return *model::parse_number<double>(column); });
  return grid;
}

std::string as_grid(const Layout& layout, const Grid& grid) {
  std::string text =
      fmt::format("{},{}\n", fmt::join(layout.keys.begin(), layout.keys.end() - 1, ","), fmt::join(grid.columns, ","));
  for (const std::string& line : grid.lines) {
    text += line;
    const auto& cells = grid.cells.at(line);
    for (const std::string& column : grid.columns) {
      const auto found = cells.find(column);
      text += "," + (found == cells.end() ? "" : found->second);
    }
    text += "\n";
  }
  return text;
}

std::string as_lines(const Layout& layout, const std::vector<Record>& records) {
  std::string text = fmt::format("{},{}\n", fmt::join(layout.keys, ","), fmt::join(layout.values, ","));
  for (const Record& record : records) {
    text += fmt::format("{}", fmt::join(record.keys, ","));
    for (const double value : record.values) text += "," + rounded(value, layout.digits);
    text += "\n";
  }
  return text;
}

std::string heading_text(const Layout& layout, const TableHeading& heading, std::size_t times) {
  std::string text = fmt::format("# {}\n# gpu: {}\n# name in the source: {}\n", layout.what, heading.gpu,
                                 fmt::join(heading.names, ", "));
  for (const std::string& source : heading.sources) text += "# source: " + source + "\n";
  for (const std::string& license : heading.licenses) text += "# license: " + license + "\n";
  for (const std::string& note : heading.notes) text += "# note: " + note + "\n";
  text += fmt::format("# rows: {}\n# changed from the source: {} rows read; times rounded to {} digits\n", times,
                      heading.read, layout.digits);
  if (heading.merged > 0) text += fmt::format("# left out: {}, merged with rows of their shape\n", heading.merged);
  for (const auto& [axis, rows] : heading.thinned)
    text += fmt::format("# left out: {}, given within 3 % by interpolation along {}\n", rows, axis);
  for (const auto& [reason, rows] : heading.losses) text += fmt::format("# left out: {}, {}\n", rows, reason);
  return text;
}

// Writes a component table: heading, and one line per record or, where records fill the grid, per all keys but the
// last.
std::string table_text(const Layout& layout, const TableHeading& heading, const std::vector<Record>& records) {
  const bool of_k = layout.keys.back() == "k";
  const std::string start =
      heading_text(layout, heading, of_k ? records.size() : records.size() * layout.values.size());
  // GEMMs are written as a grid of K where at least half of it is filled; aiter's shapes are too scattered.
  const Grid grid = of_k ? grid_of(layout, records) : Grid{};
  if (of_k && 2 * records.size() >= grid.lines.size() * grid.columns.size()) return start + as_grid(layout, grid);
  return start + as_lines(layout, records);
}

constexpr double thinning_tolerance = 0.03;

// A project whose tables are read: how its sources begin, and the notice that its license asks for.
struct Repository {
  std::string_view start, name, folder, license;
  std::string_view note;  // on how the times came about; may be empty
  Merge merge = Merge::median;
};
constexpr Repository repositories[] = {
    {"aic:", "ai-dynamo/aiconfigurator", "aic-core/src/aiconfigurator_core/systems/data/",
     "Apache-2.0 (LICENSE-Apache-2.0), Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved.",
     "", Merge::median},
    {"ROCm/aiter@", "ROCm/aiter", "",
     "MIT (LICENSE-MIT-aiter), Copyright (c) Advanced Micro Devices, Inc. All rights reserved.",
     "each time is of the best kernel that a search found, of two searches the better one, without quantizing",
     Merge::least},
    {"NVIDIA/cudnn-frontend@", "NVIDIA/cudnn-frontend", "",
     "Apache-2.0 (LICENSE-Apache-2.0), Copyright (c) 2020-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved.",
     "times are by the profiler, of ten launches in a row", Merge::median},
};

// Where rows come from: "ai-dynamo/aiconfigurator @095f58a5", and the path in it.
struct Origin {
  const Repository* repository = nullptr;
  std::string commit, path;
};

// What is collected of one table of one GPU from one layout.
struct Batch {
  std::vector<Record> records;
  std::map<std::pair<const Repository*, std::string>, std::set<std::string>> paths;  // by repository and commit
  TableHeading heading;
};
struct BatchKey {
  std::string gpu;
  const Layout* layout = nullptr;
  auto operator<=>(const BatchKey&) const = default;
};
using Batches = std::map<BatchKey, Batch>;

model::Result<Origin> origin_of(const CsvTable& csv, std::size_t row, const std::string& revision) {
  const std::string& source = csv.text(row, "source");
  for (const Repository& repository : repositories) {
    if (!source.starts_with(repository.start)) continue;
    const std::string rest = source.substr(repository.start.size());
    if (repository.start.ends_with('@')) {
      const std::size_t blank = rest.find(' ');
      return Origin{&repository, rest.substr(0, blank), blank == std::string::npos ? "" : rest.substr(blank + 1)};
    }
    if (revision.empty())
      return model::wrong_input("--revision", fmt::format("rows of {} do not name its commit", repository.name),
                                "state the commit that the tables are from, for example --revision 095f58a5");
    return Origin{&repository, revision, std::string(repository.folder) + rest};
  }
  return csv.wrong(row, "source", fmt::format("'{}' is of no repository whose license is known", source),
                   "known beginnings: aic:, ROCm/aiter@, NVIDIA/cudnn-frontend@");
}

const Layout* layout_of(const CsvTable& csv) {
  for (const Layout& layout : layouts())
    if (std::ranges::all_of(layout.needed, [&](std::string_view column) { return csv.has(column); })) return &layout;
  return nullptr;
}

model::Result<void> collect(const std::string& path, const std::string& revision, Batches& batches) {
  const auto csv = TRY(CsvTable::read(path, {"gpu", "source"}));
  const Layout* layout = layout_of(csv);
  if (layout == nullptr) {
    std::vector<std::string> known;
    for (const Layout& each : layouts())
      known.push_back(fmt::format("{} ({})", each.file, fmt::join(each.needed, ",")));
    return model::wrong_input_at(path, 0, "", "its columns are those of no component table",
                                 fmt::format("known: {}", fmt::join(known, "; ")));
  }
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string& name = csv.text(row, "gpu");
    const std::string gpu = gpu_folder(name);
    if (name.empty() || !std::ranges::all_of(gpu, [](unsigned char c) { return std::isalnum(c) != 0; }))
      return csv.wrong(row, "gpu", fmt::format("'{}' is no name of a GPU", name));
    if (gpu.empty()) continue;
    const auto origin = TRY(origin_of(csv, row, revision));
    Record record = TRY(layout->record(csv, row));
    Batch& batch = batches[{gpu, layout}];
    batch.heading.gpu = gpu;
    ++batch.heading.read;
    if (!record.left_out.empty()) {
      ++batch.heading.losses[record.left_out];
      continue;
    }
    batch.heading.names.insert(name);
    batch.paths[{origin.repository, origin.commit}].insert(origin.path);
    batch.records.push_back(std::move(record));
  }
  return {};
}

// Returns a line that names commit and paths; of many paths the folder and their number.
std::string source_line(const Repository& repository, const std::string& commit, const std::set<std::string>& paths) {
  constexpr std::size_t most_listed = 12;
  const std::string start = fmt::format("{} @{}", repository.name, commit);
  if (paths.size() > most_listed) {
    const std::string& first = *paths.begin();
    return fmt::format("{}, {} files {}/*.csv", start, paths.size(), first.substr(0, first.rfind('/')));
  }
  return fmt::format("{}, {}", start, fmt::join(paths, ", "));
}

// Merges and thins the batch; counts in its heading what that leaves out.
void reduce(const Layout& layout, Batch& batch) {
  // A GPU's table comes from one repository.
  const Merge merge = batch.paths.empty() ? Merge::median : batch.paths.begin()->first.first->merge;
  const std::size_t kept = batch.records.size();
  batch.records = merged(std::move(batch.records), merge);
  batch.heading.merged = kept - batch.records.size();
  if (!layout.axis.empty()) {
    const std::size_t before = batch.records.size();
    const auto axis = std::ranges::find(layout.keys, layout.axis) - layout.keys.begin();
    batch.records = thinned(std::move(batch.records), static_cast<std::size_t>(axis), thinning_tolerance);
    batch.heading.thinned[std::string(layout.axis)] = before - batch.records.size();
  }
  for (const auto& [origin, paths] : batch.paths) {
    batch.heading.sources.insert(source_line(*origin.first, origin.second, paths));
    batch.heading.licenses.insert(std::string(origin.first->license));
    if (!origin.first->note.empty()) batch.heading.notes.insert(std::string(origin.first->note));
  }
}

// Adds what another layout holds for the same file.
void add(Batch& to, Batch from) {
  std::ranges::move(from.records, std::back_inserter(to.records));
  to.heading.names.merge(from.heading.names);
  to.heading.sources.merge(from.heading.sources);
  to.heading.licenses.merge(from.heading.licenses);
  to.heading.notes.merge(from.heading.notes);
  to.heading.read += from.heading.read;
  to.heading.merged += from.heading.merged;
  for (const auto& [axis, rows] : from.heading.thinned) to.heading.thinned[axis] += rows;
  for (const auto& [reason, rows] : from.heading.losses) to.heading.losses[reason] += rows;
}

}  // namespace
}  // namespace components

model::Result<std::vector<ComponentFile>> import_components(const std::vector<std::string>& paths,
                                                            const std::string& revision) {
  components::Batches batches;
  for (const std::string& path : paths) TRY(components::collect(path, revision, batches));
  std::map<std::string, std::pair<const components::Layout*, components::Batch>> files;  // by path
  for (auto& [key, batch] : batches) {
    reduce(*key.layout, batch);
    const std::string path = fmt::format("{}/{}", key.gpu, key.layout->file);
    if (const auto found = files.find(path); found != files.end())
      components::add(found->second.second, std::move(batch));
    else
      files.emplace(path, std::pair{key.layout, std::move(batch)});
  }
  std::vector<ComponentFile> result;
  for (const auto& [path, table] : files) {
    const auto& [layout, batch] = table;
    if (batch.records.empty()) continue;
    result.push_back({path, components::table_text(*layout, batch.heading, batch.records), batch.heading.read});
  }
  return result;
}

}  // namespace plumbline::calibrate
