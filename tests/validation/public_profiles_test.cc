// Derives the constants of the public profiles of A100 and H100 again from the published measurements of single kernels
// and links that they name.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/base/units.h"
#include "model/cost/forms/kernel_forms.h"
#include "tests/support/nccl_fit.h"
#include "tests/support/profile_constants.h"

namespace plumbline::tests {
namespace {

class PublicProfiles : public testing::Test {
 protected:
  static double value(const model::Profile& from, const std::string& name) {
    return from.parameters()[from.find(name).value()].value;
  }
  static void expect(const model::Profile& from, const std::string& name, double derived) {
    EXPECT_NEAR(value(from, name) / derived, 1, rounding)
        << name << " of " << from.name() << ": " << value(from, name) << " shipped, " << derived << " derived";
  }
};

// Returns cuBLAS GEMMs with m = 4096 on one GPU.
std::vector<WavePoint> cublas(const std::string& hardware, double sms, double bytes_per_us) {
  std::vector<WavePoint> points;
  for (const Row& row : published("gemm_16bit")) {
    if (row.at("hardware") != hardware || number(row, "m") != 4096) continue;
    const Shape shape{1, number(row, "m"), number(row, "n"), number(row, "k")};
    const double time = number(row, "time_us");
    points.push_back({waves(shape, sms), padded(shape.k), time - writing(shape, 2, bytes_per_us), time});
  }
  return points;
}

// Returns one constant b in ns by relative least squares, y = x b: the sum of x y over the sum of x^2.
double time_per_k(const std::vector<WavePoint>& points) {
  double xy = 0;
  double xx = 0;
  for (const WavePoint& point : points) {
    const double x = point.waves * point.k / point.measured;
    xy += x * point.explained / point.measured;
    xx += x * x;
  }
  return xy / xx * 1e3;
}

void expect_gemms(const model::Profile& from, const std::string& hardware, double sms, std::size_t count) {
  const auto find = [&](const std::string& name) { return from.parameters()[from.find(name).value()].value; };
  const auto points = cublas(hardware, sms, find("memory.default.bandwidth") * 1e6);
  ASSERT_EQ(points.size(), count);
  EXPECT_NEAR(find("gemm.bf16.k_time") / time_per_k(points), 1, rounding) << time_per_k(points);
  EXPECT_EQ(find("gemm.bf16.wave_overhead"), 0);
  EXPECT_EQ(find("gemm.bf16_weight_gradient.k_time"), find("gemm.bf16.k_time"));
  // A further time per wave would be below zero, or less than 2 % of a wave over 1024.
  EXPECT_LT(fit_waves(points, false).overhead, 0.02 * find("gemm.bf16.k_time") * 1e-3 * 1024);
}

TEST_F(PublicProfiles, GemmsOfTheA100) { expect_gemms(profile(shipped_profile("a100-public")), "A100", 108, 16); }

TEST_F(PublicProfiles, GemmsOfTheH100) { expect_gemms(profile(shipped_profile("h100-public")), "H100", 132, 48); }

double attention_rate(const std::string& kernel, const std::string& pass, const std::string& causal, int tokens,
                      int head_dim = 128) {
  for (const Row& row : published("attention"))
    if (row.at("kernel") == kernel && row.at("pass") == pass && row.at("causal") == causal &&
        number(row, "seqlen") == tokens && number(row, "head_dim") == head_dim)
      return number(row, "tflops");
  return 0;
}

// The backward is that without a mask, times the effect of a mask in the forward: no causal backward pass was
// published.
TEST_F(PublicProfiles, AttentionOfTheH100) {
  const model::Profile from = profile(shipped_profile("h100-public"));
  const double masked = attention_rate("cuDNN", "fwd", "yes", 4096);
  expect(from, "attention.forward_rate", masked);
  expect(from, "attention.backward_rate",
         attention_rate("cuDNN", "bwd", "no", 4096) * masked / attention_rate("cuDNN", "fwd", "no", 4096));
}

// The figures hold 16,384 tokens and 2,048 columns in all. A mask costs the others what it costs the forward pass at
// head dimension 128.
TEST_F(PublicProfiles, AttentionByKernelOfTheH100) {
  const model::Profile from = profile(shipped_profile("h100"));
  const auto si = [&](const std::string& name) {
    const model::Parameter& constant = from.parameters()[from.find(name).value()];
    return constant.value * model::si_unit(constant.unit)->factor;
  };
  for (const auto& [kernel, prefix] : {std::pair("cuDNN", "attention.cudnn."), std::pair("FA2", "attention.flash2."),
                                       std::pair("FA3", "attention.flash3.")})
    for (const bool backward : {false, true}) {
      const std::string direction = backward ? "backward" : "forward", pass = backward ? "bwd" : "fwd";
      const model::AttentionConstants constants{.rate = si(prefix + direction + "_rate"),
                                                .pair_time = si(prefix + direction + ".pair_time"),
                                                .row_time = si(prefix + direction + ".row_time")};
      std::vector<double> errors;
      for (const int dim : {64, 128})
        for (int tokens = 512; tokens <= 16384; tokens *= 2) {
          const double masked =
              attention_rate(kernel, "fwd", "yes", tokens) / attention_rate(kernel, "fwd", "no", tokens);
          const double rate = dim == 128 && !backward ? attention_rate(kernel, pass, "yes", tokens)
                                                      : masked * attention_rate(kernel, pass, "no", tokens, dim);
          const model::AttentionWork work{.batch_heads = 2048.0 / dim * 16384 / tokens,
                                          .queries = static_cast<double>(tokens),
                                          .pairs_per_query = tokens / 2.0,
                                          .qk_dim = static_cast<double>(dim),
                                          .v_dim = static_cast<double>(dim),
                                          .backward = backward};
          const double flops = work.batch_heads * work.queries * work.pairs_per_query * 2 * (backward ? 5 : 2) * dim;
          errors.push_back(std::abs(model::attention_seconds(constants, work, 132, 132) * rate * 1e12 / flops - 1));
        }
      std::ranges::sort(errors);
      EXPECT_LT(errors[errors.size() / 2], 0.04) << prefix << direction;
    }
}

// The other memory reaches the same share of the datasheet's rate as that of the A100 of 80 GB.
TEST_F(PublicProfiles, BandwidthOfAnotherMemory) {
  const double ampere = value(profile(shipped_profile("a100-public")), "memory.default.bandwidth") / 2.04;
  expect(profile(shipped_profile("a100-40gb-public")), "memory.default.bandwidth", 1.555 * ampere);
}

// Three constants of collectives are fitted to every second size of a curve, starting at the datasheet profile.
void expect_collectives(const std::string& name, const std::string& start, const std::string& curve_name,
                        double nvlink_gbps, double nic_gbps) {
  const auto curves = read_collective_curves(shipped("calibrate/published/nccl_curves.csv")).value();
  const auto curve = std::ranges::find(curves, curve_name, &CollectiveCurve::name);
  ASSERT_NE(curve, curves.end());
  const model::Profile from = profile(shipped_profile(name));
  const auto find = [](const model::Profile& p, const std::string& constant) {
    return p.parameters()[p.find(constant).value()].value;
  };
  const bool nvls = find(from, "collective.nvls.available") > 0;
  model::ClusterShape cluster;
  cluster.gpus = curve->group.ranks;
  cluster.gpus_per_node = cluster.nics_per_node = 8;
  cluster.intra_node_bandwidth = model::BytesPerSecond(nvlink_gbps * 1e9);
  cluster.nic_bandwidth = model::BytesPerSecond(nic_gbps * 1e9);
  const auto fit = fit_curve(*curve, profile(shipped_profile(start)), cluster, constants_to_fit(*curve, nvls)).value();
  for (const model::Parameter& fitted : fit.fitted) {
    // Rates inside a node depend on the line rate of the profile that contains them.
    const bool rate = fitted.name == "network.nvlink_rate";
    const double line = rate ? nvlink_gbps / find(profile(shipped_profile(start)), "network.nvlink_line_rate") : 1;
    const double shipped_value = find(from, fitted.name);
    if (fitted.value < 0.001) {
      EXPECT_EQ(shipped_value, 0) << fitted.name;
    } else {
      EXPECT_NEAR(shipped_value / (fitted.value * line), 1, rounding) << fitted.name << " " << fitted.value * line;
    }
  }
}

TEST_F(PublicProfiles, CollectivesOfTheA100) {
  expect_collectives("a100-public", "a100-datasheet", "mleng_a100x8", 300, 25);
}

TEST_F(PublicProfiles, CollectivesOfTheH100) {
  expect_collectives("h100-public", "generic-datasheet", "mleng_h200x8", 450, 50);
}

}  // namespace
}  // namespace plumbline::tests
