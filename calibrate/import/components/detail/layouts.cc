#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "calibrate/import/components/detail/tables.h"
#include "model/base/text.h"

namespace plumbline::calibrate::components {
namespace {

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

// "trtllm/1.3.0rc10" stands for NCCL as TensorRT-LLM links it.
std::string software_of(const Reader& row) {
  std::string name = row.text("software");
  std::ranges::replace(name, '/', ' ');
  return name;
}

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
  row.key(software_of(row)).key(row.is("op", "alltoall") ? "all_to_all" : row.text("op"));
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

}  // namespace

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

std::string gpu_folder(std::string_view name) {
  if (name.starts_with("MI308X")) return "";
  if (name.starts_with("MI300X")) return "mi300x";  // one table of aiter holds it and the MI325X
  if (name.starts_with("MI350X")) return "mi355x";  // another the MI350X and the MI355X
  return model::lower_case(name.substr(0, name.find_first_of(" /")));
}

}  // namespace plumbline::calibrate::components
