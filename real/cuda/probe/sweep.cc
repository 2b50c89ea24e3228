#include "real/cuda/probe/sweep.h"

#include <algorithm>
#include <set>
#include <string>

#include "real/cuda/probe/model_shapes.h"

namespace plumbline::real::cuda {

namespace {

// A case and what it is worth: a calibration that stops early has the higher values.
struct Valued {
  double value = 0;
  Case what;
};
using Sweep = std::vector<Valued>;

void add_device_rates(Sweep& sweep) {
  Case launch;
  launch.op = "launch";
  sweep.push_back({100, launch});
  for (const std::int64_t bytes : {std::int64_t{1} << 30, std::int64_t{1} << 26}) {
    Case copy;
    copy.op = "copy";
    copy.bytes = bytes;
    sweep.push_back({99, copy});
  }
  for (const std::int64_t bytes : {std::int64_t{1} << 28, std::int64_t{1} << 20}) {
    Case transfer;
    transfer.op = "host_to_device";
    transfer.bytes = bytes;
    sweep.push_back({98, transfer});
  }
  for (const std::int64_t nodes : {1, 10, 100, 1000}) {
    Case graph;
    graph.op = "graph";
    graph.nodes = nodes;
    sweep.push_back({98, graph});
  }
  // A large square product: the rate that other benchmarks print.
  for (const char* format : {"bf16", "fp8_tensor", "fp8_block"}) {
    sweep.push_back({97, gemm_case({"square", 8192, 8192, 8192}, "F", format)});
  }
}

bool bf16_only(const Linear& layer) {
  const std::string part = layer.name.substr(layer.name.find('/') + 1);
  return part == "router" || part == "head";
}

// Every linear layer in three phases and three formats; `base` is the worth of the forward product.
void add_products(Sweep& sweep, const std::vector<Linear>& layers, double base) {
  for (const Linear& layer : layers) {
    for (const char* phase : {"F", "I", "W"}) {
      const double gradient = *phase == 'F' ? 0 : *phase == 'I' ? 6 : 7;
      sweep.push_back({base - gradient - (bf16_only(layer) ? 0 : 2), gemm_case(layer, phase, "bf16")});
      if (bf16_only(layer)) continue;
      sweep.push_back({base - gradient, gemm_case(layer, phase, "fp8_block")});
      sweep.push_back({base - gradient - 20, gemm_case(layer, phase, "fp8_tensor")});
    }
  }
}

// Between ranks: one size that latency decides, and two that the links do.
void add_collectives(Sweep& sweep, int ranks) {
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}) {
    for (const int shift : {16, 24, 28}) {
      Case collective;
      collective.op = op;
      collective.ranks = ranks;
      const std::int64_t per_rank = (std::int64_t{1} << shift) / ranks / 16 * 16;
      collective.bytes = per_rank * ranks;
      sweep.push_back({73, collective});
    }
  }
}

// Experts in one call of the library beside one after the other, with even rows and with rows by Zipf's law: 4 of
// 8,192 rows and 32 of 1,024, in sum as many.
void add_groups(Sweep& sweep) {
  for (const std::int64_t groups : {4, 32}) {
    const Linear experts = {"deepseek-v3/experts_gate_up", 32768 / groups, 4096, 7168, groups};
    for (const char* rows_by : {"uniform", "zipf"}) {
      for (const char* format : {"fp8_block", "bf16"}) {
        Case loop = gemm_case(experts, "F", format);
        loop.rows_by = rows_by;
        sweep.push_back({76, loop});
        if (loop.format != "bf16") continue;
        for (const char* phase : {"F", "I"}) {
          Case grouped = gemm_case(experts, phase, "bf16");
          grouped.rows_by = rows_by;
          grouped.way = "grouped";
          sweep.push_back({76, grouped});
        }
      }
    }
  }
}

// What training runs for hours: two seconds at full power first.
void add_sustained(Sweep& sweep) {
  const std::vector<Linear> layers = {{"square", 8192, 8192, 8192},
                                      {"deepseek-v3/dense_gate_up", 4096, 36864, 7168},
                                      {"deepseek-v3/experts_gate_up", 8192, 4096, 7168, 4},
                                      {"llama-3-70b/gate_up", 8192, 57344, 8192}};
  for (const Linear& layer : layers) {
    for (const char* format : {"bf16", "fp8_block"}) {
      Case sustained = gemm_case(layer, "F", format);
      sustained.soak = 2;
      sweep.push_back({74, sustained});
    }
  }
}

// The same product at fewer rows.
void add_variations(Sweep& sweep) {
  for (const char* format : {"bf16", "fp8_block"}) {
    for (const std::int64_t rows : {1024, 2048, 8192}) {
      sweep.push_back({60, gemm_case({"deepseek-v3/q_b", rows, 24576, 1536}, "F", format)});
      sweep.push_back({60, gemm_case({"deepseek-v3/shared_gate_up", rows, 4096, 7168}, "F", format)});
    }
  }
  Case fast = gemm_case({"deepseek-v3/q_b", 4096, 24576, 1536}, "F", "fp8_tensor");
  fast.fast_accumulation = 1;
  sweep.push_back({61, fast});
}

Case beside_copy(Case kernel, std::int64_t ctas) {
  kernel.kernel = kernel.op;
  kernel.op = "partition";
  kernel.ctas = ctas;
  return kernel;
}

// One product of each kind beside 0 to 48 copy CTAs, with the algorithm chosen for the whole chip and for the SMs
// that are left; memory-bound kernels have no such choice.
void add_partition(Sweep& sweep, int sms) {
  std::vector<Case> products;
  for (const char* format : {"fp8_block", "bf16"}) {
    products.push_back(gemm_case({"deepseek-v3/q_b", 4096, 24576, 1536}, "F", format));
    products.push_back(gemm_case({"deepseek-v3/experts_gate_up", 8192, 4096, 7168, 4}, "F", format));
  }
  const std::vector<Case> memory_bound = deepseek_v3_memory_bound();
  for (std::int64_t ctas = 0; ctas <= 48; ctas += 4) {
    const bool usual = ctas == 0 || ctas == 8 || ctas == 20 || ctas == 24 || ctas == 32;
    const double value = usual ? 85 : 70;
    for (const Case& product : products) {
      sweep.push_back({value, beside_copy(product, ctas)});
      if (ctas == 0) continue;
      Case targeted = beside_copy(product, ctas);
      targeted.target_sms = sms - ctas;
      sweep.push_back({value, targeted});
    }
    for (std::size_t i = 0; i < 4; ++i) sweep.push_back({value - 1, beside_copy(memory_bound[i], ctas)});
  }
  // What is lost to the SMs alone, and what a copy at the rate of a network card costs.
  for (const std::int64_t gbps : {0, 50, 100, 200}) {
    Case paced = beside_copy(products[0], 20);
    paced.copy_gbps = gbps;
    sweep.push_back({82, paced});
    paced.target_sms = sms - 20;
    sweep.push_back({82, paced});
    Case stream = beside_copy(memory_bound[0], 20);
    stream.copy_gbps = gbps;
    sweep.push_back({82, stream});
  }
  // Through the link to the host instead: at rates up to what it carries, and as fast as it goes.
  for (const std::int64_t gbps :
       {std::int64_t{10}, std::int64_t{25}, std::int64_t{40}, std::int64_t{50}, Case::unlimited}) {
    for (const Case& kernel : {products[0], products[2], memory_bound[0]}) {
      Case to_host = beside_copy(kernel, 20);
      to_host.copy_to = "host";
      to_host.copy_gbps = gbps;
      sweep.push_back({81, to_host});
    }
  }
  // The driver's own division: sizes that it keeps together, and 20, which it does not.
  for (const std::int64_t ctas : {16, 20, 24}) {
    for (Case kernel : {products[0], products[2], memory_bound[0]}) {
      kernel = beside_copy(kernel, ctas);
      kernel.by = "green";
      sweep.push_back({80.5, kernel});
      if (kernel.kernel != "gemm") continue;
      kernel.target_sms = sms - ctas;
      sweep.push_back({80.5, kernel});
    }
  }
}

}  // namespace

std::vector<Case> built_in_sweep(int sms, int ranks) {
  Sweep sweep;
  add_device_rates(sweep);
  add_products(sweep, deepseek_v3_linears(), 95);
  for (const Case& kernel : deepseek_v3_attention()) {
    sweep.push_back({94, kernel});
    for (const std::int64_t ctas : {0, 8, 20, 24}) sweep.push_back({84, beside_copy(kernel, ctas)});
  }
  for (const Case& kernel : deepseek_v3_memory_bound()) sweep.push_back({90, kernel});
  add_partition(sweep, sms);
  add_variations(sweep);
  add_groups(sweep);
  add_sustained(sweep);
  add_collectives(sweep, ranks);
  double value = 80;
  for (const Llama& model : llama_3_models()) {
    add_products(sweep, llama_3_linears(model), value);
    for (const Case& kernel : llama_3_attention(model)) sweep.push_back({value - 1, kernel});
    for (const Case& kernel : llama_3_memory_bound(model)) sweep.push_back({value - 1, kernel});
    value -= 4;
  }
  std::stable_sort(sweep.begin(), sweep.end(), [](const Valued& a, const Valued& b) { return a.value > b.value; });
  std::vector<Case> cases;
  std::set<std::string> seen;
  for (Valued& valued : sweep) {
    if (seen.insert(to_line(valued.what)).second) cases.push_back(std::move(valued.what));
  }
  return cases;
}

}  // namespace plumbline::real::cuda
