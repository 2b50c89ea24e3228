#include "real/cuda/probe/case_keys.h"

#include <algorithm>

namespace plumbline::real::cuda {

namespace {

using Key = CaseKey;

struct Operation {
  std::string name;
  std::vector<Key> keys;
  bool partitionable = false;  // may run beside the copy kernel
};

const Key name_key = {"name", &Case::name, false, 0, 0, {}};
const Key target_key = {"target_sms", &Case::target_sms, false, 0, 1024, {}};

std::vector<Operation> operations() {
  const Key rows = {"rows", &Case::rows, true, 1, std::int64_t{1} << 30, {}};
  const Key columns = {"columns", &Case::columns, true, 1, std::int64_t{1} << 30, {}};
  const Key bytes = {"bytes", &Case::bytes, true, 16, std::int64_t{1} << 40, {}};
  const Key ranks = {"ranks", &Case::ranks, false, 1, 1 << 20, {}};
  const std::int64_t extent = 1 << 24;
  return {{"gemm",
           {{"phase", &Case::phase, true, 0, 0, {"F", "I", "W"}},
            {"format", &Case::format, true, 0, 0, {"bf16", "fp8_tensor", "fp8_block"}},
            {"m", &Case::m, true, 1, extent, {}},
            {"n", &Case::n, true, 1, extent, {}},
            {"k", &Case::k, true, 1, extent, {}},
            {"groups", &Case::groups, false, 1, 1024, {}},
            {"rows_by", &Case::rows_by, false, 0, 0, {"uniform", "zipf"}},
            {"way", &Case::way, false, 0, 0, {"loop", "grouped"}},
            {"fast_accumulation", &Case::fast_accumulation, false, 0, 1, {}},
            {"soak", &Case::soak, false, 0, 60, {}},
            target_key},
           true},
          {"attention",
           {{"phase", &Case::phase, true, 0, 0, {"F", "B"}},
            {"format", &Case::format, true, 0, 0, {"bf16"}},
            {"sequences", &Case::sequences, false, 1, extent, {}},
            {"length", &Case::length, true, 1, extent, {}},
            {"heads", &Case::heads, true, 1, 1024, {}},
            {"kv_heads", &Case::kv_heads, false, 1, 1024, {}},
            {"qk_dim", &Case::qk_dim, true, 8, 1024, {}},
            {"v_dim", &Case::v_dim, true, 8, 1024, {}}},
           true},
          {"rmsnorm", {rows, columns}, true},
          {"swiglu", {rows, columns}, true},
          {"quantise", {rows, columns}, true},
          {"permute", {rows, columns, {"top_k", &Case::top_k, true, 1, 64, {}}}, true},
          {"adamw", {{"elements", &Case::elements, true, 1, std::int64_t{1} << 40, {}}}, true},
          {"copy", {bytes}, false},
          {"host_to_device", {bytes}, false},
          {"launch", {}, false},
          {"graph", {{"nodes", &Case::nodes, true, 1, 100000, {}}}, false},
          {"all_reduce", {bytes, ranks}, false},
          {"all_gather", {bytes, ranks}, false},
          {"reduce_scatter", {bytes, ranks}, false},
          {"all_to_all", {bytes, ranks}, false}};
}

const std::vector<Key>& partition_keys() {
  static const std::vector<Key> keys = {
      {"ctas", &Case::ctas, true, 0, 1024, {}},
      {"by", &Case::by, false, 0, 0, {"claim", "green"}},
      {"copy_gbps", &Case::copy_gbps, false, Case::unlimited, 1 << 20, {}},
      {"copy_to", &Case::copy_to, false, 0, 0, {"device", "host"}},
  };
  return keys;
}

}  // namespace

std::vector<CaseKey> keys_of(const std::string& op, const std::string& kernel) {
  static const std::vector<Operation> all = operations();
  const std::string& wanted = op == "partition" ? kernel : op;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Operation& operation) { return operation.name == wanted; });
  if (found == all.end() || (op == "partition" && !found->partitionable)) return {};
  std::vector<Key> keys = {name_key};
  if (op == "partition") {
    keys.push_back({"kernel", &Case::kernel, true, 0, 0, {}});
    keys.insert(keys.end(), partition_keys().begin(), partition_keys().end());
  }
  for (const Key& key : found->keys) {
    // The copy beside it would not last as long as a soak.
    if (op != "partition" || key.name != "soak") keys.push_back(key);
  }
  return keys;
}

}  // namespace plumbline::real::cuda
