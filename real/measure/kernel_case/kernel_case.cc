#include "real/measure/kernel_case/kernel_case.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <utility>
#include <variant>

#include "real/cuda/kernels/limits.h"

namespace plumbline::real {
namespace {

// A key of a line: the member that it sets, and for words the allowed ones (none: any).
struct Key {
  std::string name;
  std::variant<std::string KernelCase::*, std::int64_t KernelCase::*> member;
  bool required = false;
  std::int64_t least = 1, most = std::int64_t{1} << 50;
  std::vector<std::string> words;
};

struct Operation {
  std::string name;
  std::vector<Key> keys;
  bool partitionable = false;  // may overlap the copy kernel
};

const Key name_key = {"name", &KernelCase::name, false, 0, 0, {}};
const Key soak_key = {"soak", &KernelCase::soak, false, 0, 60, {}};
const Key target_key = {"target_sms", &KernelCase::target_sms, false, KernelCase::others, 1024, {}};

std::vector<Operation> operations() {
  const Key rows = {"rows", &KernelCase::rows, true, 1, std::int64_t{1} << 30, {}};
  const Key columns = {"columns", &KernelCase::columns, true, 1, std::int64_t{1} << 30, {}};
  const Key bytes = {"bytes", &KernelCase::bytes, true, 16, std::int64_t{1} << 40, {}};
  const Key ranks = {"ranks", &KernelCase::ranks, false, 1, 1 << 20, {}};
  const std::int64_t extent = 1 << 24;
  return {{"gemm",
           {{"phase", &KernelCase::phase, true, 0, 0, {"F", "I", "W"}},
            {"format", &KernelCase::format, true, 0, 0, {"bf16", "fp8_tensor", "fp8_block"}},
            {"m", &KernelCase::m, true, 1, extent, {}},
            {"n", &KernelCase::n, true, 1, extent, {}},
            {"k", &KernelCase::k, true, 1, extent, {}},
            {"groups", &KernelCase::groups, false, 1, 1024, {}},
            {"rows_by", &KernelCase::rows_by, false, 0, 0, {"uniform", "zipf"}},
            {"way", &KernelCase::implementation, false, 0, 0, {"loop", "grouped"}},
            {"fast_accumulation", &KernelCase::fast_accumulation, false, 0, 1, {}},
            soak_key,
            target_key},
           true},
          {"attention",
           {{"phase", &KernelCase::phase, true, 0, 0, {"F", "B"}},
            {"format", &KernelCase::format, true, 0, 0, {"bf16"}},
            {"sequences", &KernelCase::sequences, false, 1, extent, {}},
            {"length", &KernelCase::length, true, 1, extent, {}},
            {"heads", &KernelCase::heads, true, 1, 1024, {}},
            {"kv_heads", &KernelCase::kv_heads, false, 1, 1024, {}},
            {"qk_dim", &KernelCase::qk_dim, true, 8, 1024, {}},
            {"v_dim", &KernelCase::v_dim, true, 8, 1024, {}},
            soak_key},
           true},
          {"cached_attention",
           {{"format", &KernelCase::format, true, 0, 0, {"bf16"}},
            {"sequences", &KernelCase::sequences, true, 1, extent, {}},
            {"length", &KernelCase::length, true, 1, extent, {}},
            {"heads", &KernelCase::heads, true, 1, 1024, {}},
            {"kv_heads", &KernelCase::kv_heads, false, 1, 1024, {}},
            {"qk_dim", &KernelCase::qk_dim, true, 8, 1024, {}},
            {"v_dim", &KernelCase::v_dim, true, 8, 1024, {}},
            {"latent", &KernelCase::latent, false, 0, 1, {}},
            soak_key},
           false},
          {"rmsnorm", {rows, columns, soak_key}, true},
          {"swiglu", {rows, columns, soak_key}, true},
          {"quantise", {rows, columns, soak_key}, true},
          {"permute", {rows, columns, {"top_k", &KernelCase::top_k, true, 1, 64, {}}, soak_key}, true},
          {"adamw", {{"elements", &KernelCase::elements, true, 1, std::int64_t{1} << 40, {}}, soak_key}, true},
          {"copy", {bytes}, false},
          {"host_to_device", {bytes}, false},
          {"launch", {}, false},
          {"graph", {{"nodes", &KernelCase::nodes, true, 1, 100000, {}}}, false},
          {"all_reduce", {bytes, ranks}, false},
          {"all_gather", {bytes, ranks}, false},
          {"reduce_scatter", {bytes, ranks}, false},
          {"all_to_all", {bytes, ranks}, false}};
}

const std::vector<Key>& partition_keys() {
  static const std::vector<Key> keys = {
      {"ctas", &KernelCase::ctas, true, 0, 1024, {}},
      {"by", &KernelCase::by, false, 0, 0, {"claim", "green"}},
      {"copy_gbps", &KernelCase::copy_gbps, false, KernelCase::unlimited, 1 << 20, {}},
      {"copy_to", &KernelCase::copy_to, false, 0, 0, {"device", "host"}},
  };
  return keys;
}

// Returns the keys of `op` (in a partition: of `kernel`); empty when there is no such operation.
std::vector<Key> keys_of(const std::string& op, const std::string& kernel) {
  static const std::vector<Operation> all = operations();
  const std::string& wanted = op == "partition" ? kernel : op;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Operation& operation) { return operation.name == wanted; });
  if (found == all.end() || (op == "partition" && !found->partitionable)) return {};
  std::vector<Key> keys = {name_key};
  if (op == "partition") {
    keys.push_back({"kernel", &KernelCase::kernel, true, 0, 0, {}});
    keys.insert(keys.end(), partition_keys().begin(), partition_keys().end());
  }
  for (const Key& key : found->keys) {
    // A partition has no soak, because the concurrent copy would end before it.
    if (op != "partition" || key.name != "soak") keys.push_back(key);
  }
  return keys;
}

constexpr std::int64_t row_block = 128;  // rows that share a scale of an FP8 operand along k

// Returns the rows of one group, or the mean of all.
std::int64_t rows_of_group(const KernelCase& value) { return value.phase == "W" ? value.k : value.m; }

std::string set(KernelCase& value, const Key& key, const std::string& text) {
  if (const auto* word = std::get_if<std::string KernelCase::*>(&key.member)) {
    const bool known = key.words.empty() || std::find(key.words.begin(), key.words.end(), text) != key.words.end();
    if (!known) return "'" + text + "' is no " + key.name;
    value.*(*word) = text;
    return "";
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return key.name + " = '" + text + "' is no whole number";
  if (number < key.least || number > key.most)
    return key.name + " = " + text + " is outside " + std::to_string(key.least) + " to " + std::to_string(key.most);
  value.*std::get<std::int64_t KernelCase::*>(key.member) = number;
  return "";
}

std::string check_groups(const KernelCase& value) {
  if (value.rows_by == "zipf" && value.groups == 1) return "rows_by=zipf needs several groups";
  if (value.rows_by == "zipf" && rows_of_group(value) % row_block != 0)
    return "rows_by=zipf needs rows that are a multiple of 128";
  if (value.implementation == "grouped" && (value.format != "bf16" || value.phase == "W"))
    return "way=grouped is for bf16 in phases F and I: the library's grouped GEMM writes what it reads";
  return "";
}

// Checks the values of a line together; sizes are multiples because the kernels move 16 bytes per thread and access.
std::string check(const KernelCase& value) {
  const std::string& operation = value.operation();
  if (const std::string problem = check_groups(value); !problem.empty()) return problem;
  if (value.by == "green" && value.ctas == 0) return "by=green needs ctas of at least 1";
  if (operation == "gemm" && value.fast_accumulation != 0 && value.format != "fp8_tensor")
    return "fast_accumulation is a choice of fp8_tensor only";
  if (operation == "gemm" && value.format != "bf16" && (value.m % 16 != 0 || value.n % 16 != 0 || value.k % 16 != 0))
    return "FP8 GEMMs need m, n and k that are multiples of 16";
  if (operation == "gemm" && (value.m % 8 != 0 || value.n % 8 != 0 || value.k % 8 != 0))
    return "GEMMs need m, n and k that are multiples of 8";
  if (value.kv_heads > 0 && value.heads % value.kv_heads != 0) return "heads must be a multiple of kv_heads";
  if (value.latent != 0 && (value.kv_heads != 1 || value.v_dim > value.qk_dim))
    return "latent=1 needs kv_heads=1 and a v_dim of at most qk_dim";
  if (value.qk_dim % 8 != 0 || value.v_dim % 8 != 0) return "qk_dim and v_dim must be multiples of 8";
  if (operation == "quantise" && value.columns % 128 != 0) return "columns must be a multiple of 128";
  if (value.columns % 8 != 0) return "columns must be a multiple of 8";
  if (operation == "rmsnorm" && value.columns > cuda::widest_row)
    return "rmsnorm takes at most " + std::to_string(cuda::widest_row) + " columns";
  if (value.elements % 8 != 0) return "elements must be a multiple of 8";
  if (value.bytes % 16 != 0) return "bytes must be a multiple of 16";
  if (value.bytes % (4 * value.ranks) != 0) return "bytes must be whole FP32 numbers for each of the ranks";
  return "";
}

using Pair = std::pair<std::string, std::string>;
std::vector<Pair> split(std::istringstream& words, std::string& error) {
  std::vector<Pair> pairs;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      error = "'" + word + "' is not key=value";
      return {};
    }
    pairs.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return pairs;
}

}  // namespace

model::Result<KernelCase> parse_kernel_case(const std::string& line) {
  const auto wrong = [](std::string message) {
    return tl::unexpected(model::Error{model::ErrorKind::input, std::move(message)});
  };
  KernelCase value;
  std::istringstream words(line);
  words >> value.op;
  std::string problem;
  const auto pairs = split(words, problem);
  if (!problem.empty()) return wrong(problem);
  const auto kernel = std::ranges::find(pairs, "kernel", &Pair::first);
  const std::vector<Key> keys = keys_of(value.op, kernel == pairs.end() ? "" : kernel->second);
  if (keys.empty())
    return wrong(value.op == "partition" ? "partition needs a kernel= that can run next to a copy"
                                         : "'" + value.op + "' is no operation");
  std::set<std::string> given;
  for (const auto& [name, text] : pairs) {
    const auto key = std::ranges::find(keys, name, &Key::name);
    if (key == keys.end()) return wrong(value.op + " has no key '" + name + "'");
    if (!given.insert(name).second) return wrong("'" + name + "' is given twice");
    if (problem = set(value, *key, text); !problem.empty()) return wrong(problem);
  }
  for (const Key& key : keys)
    if (key.required && !given.contains(key.name)) return wrong(value.op + " needs " + key.name + "=");
  if (problem = check(value); !problem.empty()) return wrong(problem);
  return value;
}

std::string to_line(const KernelCase& value) {
  static const KernelCase defaults;
  std::string line = value.op;
  for (const Key& key : keys_of(value.op, value.kernel)) {
    if (const auto* word = std::get_if<std::string KernelCase::*>(&key.member)) {
      if (value.*(*word) != defaults.*(*word)) line += " " + key.name + "=" + value.*(*word);
    } else {
      const auto number = std::get<std::int64_t KernelCase::*>(key.member);
      if (key.required || value.*number != defaults.*number)
        line += " " + key.name + "=" + std::to_string(value.*number);
    }
  }
  return line;
}

bool is_collective(const KernelCase& value) {
  const std::string& op = value.op;
  return op == "all_reduce" || op == "all_gather" || op == "reduce_scatter" || op == "all_to_all";
}

std::vector<std::int64_t> group_rows(const KernelCase& value) {
  const std::int64_t mean = rows_of_group(value);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(value.groups), mean);
  if (value.rows_by != "zipf") return rows;
  double sum = 0;
  for (std::int64_t rank = 1; rank <= value.groups; ++rank) sum += 1.0 / static_cast<double>(rank);
  // Each group has one block and its share of the others, rounded down. The largest groups get the remaining blocks.
  std::int64_t left = mean / row_block * value.groups - value.groups;
  const auto shared = static_cast<double>(left);
  for (std::size_t group = 0; group < rows.size(); ++group) {
    const auto share = static_cast<std::int64_t>(shared / sum / static_cast<double>(group + 1));
    rows[group] = (1 + share) * row_block;
    left -= share;
  }
  for (std::size_t group = 0; left > 0; ++group, --left) rows[group % rows.size()] += row_block;
  return rows;
}

}  // namespace plumbline::real
