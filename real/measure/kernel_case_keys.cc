#include "real/measure/kernel_case_keys.h"

#include <algorithm>

namespace plumbline::real {

namespace {

using Key = CaseKey;

struct Operation {
  std::string name;
  std::vector<Key> keys;
  bool partitionable = false;  // may run beside the copy kernel
};

const Key name_key = {"name", &KernelCase::name, false, 0, 0, {}};
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
            {"way", &KernelCase::way, false, 0, 0, {"loop", "grouped"}},
            {"fast_accumulation", &KernelCase::fast_accumulation, false, 0, 1, {}},
            {"soak", &KernelCase::soak, false, 0, 60, {}},
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
            {"v_dim", &KernelCase::v_dim, true, 8, 1024, {}}},
           true},
          {"rmsnorm", {rows, columns}, true},
          {"swiglu", {rows, columns}, true},
          {"quantise", {rows, columns}, true},
          {"permute", {rows, columns, {"top_k", &KernelCase::top_k, true, 1, 64, {}}}, true},
          {"adamw", {{"elements", &KernelCase::elements, true, 1, std::int64_t{1} << 40, {}}}, true},
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

}  // namespace

std::vector<CaseKey> keys_of(const std::string& op, const std::string& kernel) {
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
    // The copy beside it would not last as long as a soak.
    if (op != "partition" || key.name != "soak") keys.push_back(key);
  }
  return keys;
}

}  // namespace plumbline::real
