// Fits of component tables: made-up tables whose constants are known give them back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/held_out.h"
#include "model/base/random.h"
#include "model/cost/work.h"

namespace plumbline::calibrate {
namespace {

FitMachine machine() {
  FitMachine machine;
  machine.device.sms = 132;
  machine.device.bf16_peak = model::FlopsPerSecond(989e12);
  machine.device.fp8_peak = model::FlopsPerSecond(1979e12);
  machine.device.memory_bandwidth = model::BytesPerSecond(3.35e12);
  machine.nvlink_rate = 450e9;
  machine.nic_rate = 50e9;
  return machine;
}

std::vector<GemmRow> gemms(const model::GemmConstants& constants, const std::string& format, double launch) {
  std::vector<GemmRow> rows;
  for (const std::int64_t m : {512, 2048, 8192, 32768})
    for (const std::int64_t n : {512, 1024, 3072, 8192, 16384})
      for (const std::int64_t k : {512, 1536, 4096, 8192, 16384}) {
        GemmRow row;
        row.software = "made";
        row.format = format;
        row.m = m;
        row.n = n;
        row.k = k;
        const auto rows_m = static_cast<double>(m), inner = static_cast<double>(k);
        row.seconds =
            launch +
            gemm_core_seconds(constants, {1, rows_m, static_cast<double>(n), inner, operand_bytes(format), 2}, 132);
        if (format != "bf16") row.seconds += rows_m * inner * (2 + operand_bytes(format)) / 2e12;
        rows.push_back(row);
      }
  return rows;
}

model::GemmConstants hopper() {
  return {.tile_m = 128,
          .tile_n = 128,
          .wave_overhead = 0.5e-6,
          .wave_share = 0.5,
          .k_time = 2.0 * 128 * 128 * 132 / 800e12,
          .memory_bandwidth = 2.5e12,
          .droop = 0.2,
          .droop_time = 2e-3};
}

TEST(ComponentFit, GemmsGiveBackTheirConstants) {
  const GemmTableFit fit = fit_gemm_table(gemms(hopper(), "bf16", 3e-6), machine());
  EXPECT_EQ(fit.constants.tile_m, 128);
  EXPECT_EQ(fit.constants.tile_n, 128);
  EXPECT_NEAR(fit.constants.rate / 800e12, 1, 0.005);
  EXPECT_NEAR(fit.constants.memory_bandwidth / 2.5e12, 1, 0.02);
  EXPECT_NEAR(fit.constants.ramp / 3e-6, 1, 0.02);
  EXPECT_EQ(fit.held_out.errors.size(), 20U);
  EXPECT_THAT(fit.held_out.errors, testing::Each(testing::Lt(0.005)));
}

// A fifth of the rows twice as slow, as on a node that others use, moves nothing.
TEST(ComponentFit, DisturbedGemmsAreDropped) {
  auto rows = gemms(hopper(), "bf16", 3e-6);
  for (std::size_t i = 0; i < rows.size(); i += 7) rows[i].seconds *= 1.6;
  EXPECT_NEAR(fit_gemm_table(rows, machine()).constants.rate / 800e12, 1, 0.01);
}

TEST(ComponentFit, TheQuantizingKernelIsApartFromTheGemm) {
  model::GemmConstants constants = hopper();
  constants.k_time /= 2;
  const auto rows = gemms(constants, "fp8_block", 8e-6);
  const GemmTableFit fit = fit_gemm_table(rows, machine());
  EXPECT_NEAR(fit.constants.rate / 1600e12, 1, 0.02);
  EXPECT_NEAR(fit.constants.quantize_bandwidth / 2e12, 1, 0.02);
  // Another software with the same kernels at another rate.
  constants.k_time *= 1.1;
  const GemmTableFit other = fit_gemm_table(gemms(constants, "fp8_block", 12e-6), machine(), true, &fit);
  EXPECT_NEAR(other.constants.rate / (1600e12 / 1.1), 1, 0.02);
  EXPECT_EQ(other.constants.tile_m, fit.constants.tile_m);
}

constexpr model::SmallGemmConstants few_rows{.start = 3e-6, .bandwidth = 2.5e12, .k_time = 0.7e-9, .rate = 700e12};

// Two softwares, one of which is a tenth slower: the constants are those of the mean, half the spread is uncertain.
TEST(ComponentFit, GemmsOfFewRowsGiveBackTheirConstants) {
  std::vector<GemmRow> rows;
  for (const std::int64_t m : {1, 16, 64, 128, 256, 512})
    for (const std::int64_t n : {512, 2048, 7168, 16384})
      for (const std::int64_t k : {512, 2048, 7168, 16384}) {
        const model::GemmWork work{
            .m = static_cast<double>(m), .n = static_cast<double>(n), .k = static_cast<double>(k)};
        const double seconds = few_rows.start + small_gemm_core(few_rows, work, 1).total();
        rows.push_back({"a", "bf16", m, n, k, seconds});
        rows.push_back({"b", "bf16", m, n, k, 1.1 * seconds});
      }
  const SmallGemmFit fit = fit_small_gemms(rows, machine());
  const double mean = std::sqrt(1.1);
  EXPECT_NEAR(fit.constants.start / (3e-6 * mean), 1, 0.02);
  EXPECT_NEAR(fit.constants.bandwidth / (2.5e12 / mean), 1, 0.02);
  EXPECT_NEAR(fit.constants.k_time / (0.7e-9 * mean), 1, 0.02);
  EXPECT_NEAR(fit.constants.rate / (700e12 / mean), 1, 0.02);
  EXPECT_THAT(fit.fitted, testing::Each(testing::Field(&Fitted::deviation, testing::Ge(std::log(1.1) / 2 - 1e-3))));
  ASSERT_EQ(fit.held_out.size(), 2U);
  EXPECT_GT(fit.fitted_errors[0].size(), 10U);
}

TEST(ComponentFit, GroupsAndExpertsOfFewRowsGiveBackTheirConstants) {
  model::SmallGemmConstants known = few_rows;
  known.k_time = 0;
  known.tile_depth = 1500;
  model::SmallGemmConstants of_experts = known;
  of_experts.row_time = 4e-12;
  std::vector<GroupedGemmRow> groups;
  std::vector<ExpertRow> experts;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  for (const std::int64_t count : {1, 4, 16, 64})
    for (const std::int64_t m : {4, 32, 128, 384})
      for (const std::int64_t hidden : {2048, 7168})
        for (const std::int64_t ffn : {512, 1536, 2048}) {
          const model::GemmWork down{
              .groups = real(count), .m = real(m), .n = real(hidden), .k = real(ffn), .row_spread = 0.3};
          groups.push_back(
              {"a", "bf16", 0.3, count, m, hidden, ffn, known.start + small_gemm_core(known, down, 1).total()});
          // One of 64 experts for each of count * m tokens of `64 / count` ranks, the same rows for each expert.
          // Kernels next to the GEMMs gather, activate and sum the rows in BF16 at 1 TB/s; all ranks' rows enter at 5.
          model::GemmWork even = down, up{.groups = real(count), .m = real(m), .n = 2 * real(ffn), .k = real(hidden)};
          even.row_spread = 0;
          const double activations = real(count * m) * 6 * real(hidden + ffn) / 1e12;
          const double entry = 64 * real(m) * real(hidden) * 2 / 5e12;
          experts.push_back({"a", "kernel", "bf16", "balanced", 64 * m, hidden, ffn, 1, 64, 64 / count,
                             20e-6 + small_gemm_core(of_experts, up, 1).total() +
                                 small_gemm_core(of_experts, even, 1).total() + activations + entry});
        }
  // Rate, depth and rows of experts stand in for each other in part; times of shapes that the fit left out do not.
  const SmallGemmFit grouped = fit_small_grouped_gemms(groups, machine()),
                     block = fit_small_experts(experts, machine(), 1e12),
                     known_bandwidth = fit_small_experts(experts, machine(), 1e12, 2.5e12);
  for (const SmallGemmFit* const fit : {&grouped, &block, &known_bandwidth}) {
    EXPECT_NEAR(fit->constants.bandwidth / 2.5e12, 1, 0.03);
    EXPECT_NEAR(fit->constants.rate / 700e12, 1, 0.1);
    EXPECT_NEAR(fit->constants.tile_depth / 1500, 1, 0.25);
    EXPECT_EQ(fit->constants.k_time, 0);
    EXPECT_EQ(fit->most_rows, 384);
    ASSERT_EQ(fit->held_out.size(), 1U);
    EXPECT_THAT(fit->held_out[0].errors, testing::Each(testing::Lt(0.01)));
  }
  EXPECT_NEAR(grouped.constants.rate / 700e12, 1, 0.03);
  EXPECT_EQ(grouped.constants.row_time, 0);
  EXPECT_NEAR(block.constants.row_time / 4e-12, 1, 0.1);
}

TEST(ComponentFit, AttentionGivesBackItsConstants) {
  const model::AttentionConstants known{.rate = 800e12, .pair_time = 150e-15, .row_time = 250e-12, .tail = 0.5};
  std::vector<AttentionRow> rows;
  for (const char* software : {"a", "b"})
    for (const std::int64_t batch : {1, 4})
      for (const std::int64_t tokens : {1024, 2048, 4096, 16384})
        for (const std::int64_t heads : {16, 32, 128})
          for (const std::int64_t kv_heads : {4, 16})
            for (const std::int64_t dim : {64, 128}) {
              AttentionRow row{software, batch, tokens, heads, kv_heads, dim, 0};
              model::AttentionConstants c = known;
              c.kv_bandwidth = *software == 'a' ? 2e12 : 1e12;
              const auto length = static_cast<double>(tokens), width = static_cast<double>(dim);
              row.seconds = 10e-6 + attention_seconds(c,
                                                      {.batch_heads = static_cast<double>(batch * heads),
                                                       .kv_heads_batch = static_cast<double>(batch * kv_heads),
                                                       .queries = length,
                                                       .pairs_per_query = length / 2,
                                                       .qk_dim = width,
                                                       .v_dim = width},
                                                      132, 132);
              rows.push_back(row);
            }
  const AttentionTableFit fit = fit_attention_table(rows, machine());
  EXPECT_NEAR(fit.constants.rate / 800e12, 1, 0.01);
  EXPECT_NEAR(fit.constants.pair_time / 150e-15, 1, 0.02);
  EXPECT_NEAR(fit.constants.row_time / 250e-12, 1, 0.02);
  EXPECT_NEAR(fit.constants.tail / 0.5, 1, 0.05);
  EXPECT_LT(fit.fitted[0].deviation, 0.01);
}

// Rows of one kernel with large grids, with and without a window; those above 50 ms, without a mask or with sums in a
// fixed order are slower and not looked at.
TEST(ComponentFit, TrainingAttentionGivesBackItsRateAndRows) {
  const model::AttentionConstants known{
      .rate = 580e12, .pair_time = 150e-15, .row_time = 600e-12, .tail = 0.5, .kv_bandwidth = 4e12};
  std::vector<TrainingAttentionRow> rows;
  for (const bool backward : {false, true})
    for (const std::int64_t dim : {64, 128, 192})
      for (const std::int64_t tokens : {2048, 4096, 8192, 16384, 65536})
        for (const std::int64_t window : {0, 128, 1024}) {
          TrainingAttentionRow row{"cudnn 9", "bf16", "causal", backward, false,  2,     64,
                                   8,         dim,    128,      tokens,   tokens, window};
          const auto length = static_cast<double>(tokens);
          row.seconds = attention_seconds(known,
                                          {.batch_heads = 128,
                                           .kv_heads_batch = 16,
                                           .queries = length,
                                           .pairs_per_query = row.keys_per_query(),
                                           .qk_dim = static_cast<double>(dim),
                                           .v_dim = 128,
                                           .backward = backward,
                                           .longest = static_cast<double>(window)},
                                          132, 132);
          if (row.seconds > 0.05) row.seconds *= 1.2;
          if (backward) rows.push_back(row);
          row.seconds *= 2;
          row.deterministic = true;
          rows.push_back(row);
          row.deterministic = false;
          row.mask = "full";
          rows.push_back(row);
        }
  const TrainingAttentionFit fit = fit_training_attention(rows, machine(), known);
  EXPECT_NEAR(fit.constants.rate / 580e12, 1, 1e-3);
  EXPECT_NEAR(fit.constants.row_time / 600e-12, 1, 1e-3);
  EXPECT_GT(fit.held_out.errors.size(), 5U);
  EXPECT_LT(*std::ranges::max_element(fit.held_out.errors), 1e-3);
  // A GPU of which every time is longer by a tenth, but for what is known.
  const TrainingAttentionFit slower = fit_training_attention(rows, machine(), known, 1.1);
  EXPECT_LT(slower.constants.rate, 560e12);
  EXPECT_GT(slower.constants.row_time, 640e-12);
  rows.resize(1);
  rows.front().mask = "full";
  EXPECT_TRUE(fit_training_attention(rows, machine(), known).fitted.empty());
}

TEST(ComponentFit, ScansGiveBackTheirShareAndTheTimeOfAChunk) {
  const ScanConstants known{.bandwidth = 3e12, .rate = 800e12};
  model::Recurrence recurrence{.kind = model::RecurrenceKind::channel_delta, .key_dim = 128, .value_dim = 128};
  std::vector<ScanRow> rows;
  for (const std::int64_t sequences : {1, 2, 8})
    for (const std::int64_t tokens : {2048, 8192, 32768})
      for (const std::int64_t heads : {4, 16, 64}) {
        recurrence.value_heads = heads;
        const model::ScanWork work = model::chunked_scan_work(recurrence, 2, true, true);
        const double all = static_cast<double>(sequences * tokens * heads);
        ScanRow row{"fla", "channel_delta", true, true, sequences, tokens, heads, heads, 128, 128, 64, 0};
        row.seconds =
            all * (work.bytes / known.bandwidth + work.flops / (0.1 * known.rate)) +
            2e-6 * model::waiting_chunks(recurrence, static_cast<double>(sequences), static_cast<double>(tokens), 132);
        rows.push_back(row);
      }
  TableFit<ScanConstants> fit = fit_scan_table(rows, machine(), known);
  EXPECT_NEAR(fit.constants.gemm_share, 0.1, 1e-3);
  EXPECT_NEAR(fit.constants.chunk_time, 2e-6, 3e-8);
  EXPECT_LT(*std::ranges::max_element(fit.held_out.errors), 5e-3);
  // Rows whose queries and keys are normalised before it move fewer bytes in the same time.
  for (ScanRow& row : rows) row.norms_inside = false;
  EXPECT_LT(fit_scan_table(rows, machine(), known).constants.gemm_share, 0.099);
  // Where blocks fill the SMs, what a chunk takes stays as it was known.
  std::erase_if(rows, [](const ScanRow& row) { return row.sequences * row.value_heads < 64; });
  fit = fit_scan_table(rows, machine(), {.bandwidth = 3e12, .rate = 800e12, .chunk_time = 5e-6});
  ASSERT_EQ(fit.fitted.size(), 1u);
  EXPECT_EQ(fit.fitted.front().name, "gemm_share");
  EXPECT_DOUBLE_EQ(fit.constants.chunk_time, 5e-6);
}

// Two softwares that differ in start and bandwidth; the profile has their geometric means, half the spread is their
// uncertainty, and no bandwidth is above the memory's.
TEST(ComponentFit, AttentionOverCachesGivesBackItsConstants) {
  const model::CachedAttentionConstants known{.request_time = 8e-9,
                                              .rate = 700e12,
                                              .ramp = 4e-6,
                                              .ramp_time = 20e-6,
                                              .merge_time = 100e-9,
                                              .least_rows = latent_rows};
  std::vector<CachedAttentionRow> rows;
  for (const char* software : {"a", "b"})
    for (const std::int64_t batch : {1, 4, 16, 64, 256})
      for (const std::int64_t keys : {128, 512, 2048, 8192, 32768})
        for (const std::int64_t heads : {16, 64, 128})
          for (const std::int64_t queries : {1, 2}) {
            model::CachedAttentionConstants c = known;
            c.start = *software == 'a' ? 10e-6 : 20e-6;
            c.bandwidth = *software == 'a' ? 2.4e12 : 3e12;
            CachedAttentionRow row{software, "bf16", heads, 1, 576, 512, queries, batch, keys, 0};
            const auto real = [](std::int64_t value) { return static_cast<double>(value); };
            row.seconds = cached_attention_parts(c, {.requests = real(batch),
                                                     .queries = real(queries),
                                                     .query_heads = real(heads),
                                                     .kv_heads = 1,
                                                     .pairs_per_query = real(keys),
                                                     .keys = real(keys),
                                                     .qk_dim = 576,
                                                     .v_dim = 512,
                                                     .key_value_bytes = 1152})
                              .total();
            rows.push_back(row);
          }
  const CachedAttentionTableFit fit = fit_cached_attention_table(rows, machine());
  EXPECT_NEAR(fit.constants.start / std::sqrt(200e-12), 1, 0.01);
  EXPECT_NEAR(fit.constants.bandwidth / std::sqrt(7.2e24), 1, 0.01);
  EXPECT_NEAR(fit.constants.rate / 700e12, 1, 0.01);
  EXPECT_NEAR(fit.constants.ramp / 4e-6, 1, 0.1);
  EXPECT_NEAR(fit.constants.merge_time / 100e-9, 1, 0.1);
  EXPECT_NEAR(fit.fitted[0].deviation, std::log(2) / 2, 0.01);
  EXPECT_NEAR(fit.fitted[1].deviation, std::log(3 / 2.4) / 2, 0.01);
  ASSERT_EQ(fit.held_out.size(), 2U);
  EXPECT_THAT(fit.held_out[0].errors, testing::Each(testing::Lt(0.01)));
  for (CachedAttentionRow& row : rows) row.seconds /= 2;  // faster than the memory
  for (const CachedAttentionSoftware& software : fit_cached_attention_table(rows, machine()).softwares)
    EXPECT_LE(software.bandwidth, 3.35e12);
}

TEST(ComponentFit, ExpertsAreNotFasterThanDenseGemms) {
  std::vector<ExpertRow> rows;
  for (const std::int64_t tokens : {1024, 4096, 8192, 16384, 32768})
    for (const std::int64_t parallel : {1, 4, 8})
      for (const std::int64_t ffn : {768, 1536, 2048}) {
        ExpertRow row{"made", "kernel", "bf16", "balanced", tokens, 4096, ffn, 8, 128, parallel, 0};
        const double experts = 128.0 / static_cast<double>(parallel), m = static_cast<double>(tokens) * 8 / 128;
        const double work = 4096.0 * static_cast<double>(ffn);
        row.seconds = 20e-6 + experts * std::max(6 * std::ceil(m / 128) * 128 * work / 600e12, 6 * work / 2.8e12);
        rows.push_back(row);
      }
  EXPECT_NEAR(fit_expert_table(rows, machine(), 800e12).constants.rate / 600e12, 1, 0.05);
  EXPECT_LT(fit_expert_table(rows, machine(), 500e12).constants.rate, 500e12);
}

TEST(ComponentFit, CollectivesGiveBackTheirLines) {
  std::vector<CollectiveRow> rows;
  for (const std::int64_t gpus : {2, 4, 8})
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
      for (std::int64_t bytes = 512; bytes <= 1 << 29; bytes *= 2) {
        const double n = static_cast<double>(gpus), size = static_cast<double>(bytes);
        const bool reduces = std::string(op) == "all_reduce", exchanges = std::string(op) == "all_to_all";
        const double hops = (reduces ? 2 : 1) * (n - 1), bus = size * hops / n;
        const double simple = exchanges ? 22e-6 + hops * 1e-6 + bus / 330e9 : 20e-6 + hops * 0.5e-6 + bus / 350e9;
        const double ll = exchanges ? 7e-6 + hops * 0.2e-6 + bus / 20e9 : 5e-6 + hops * 0.8e-6 + bus / 110e9;
        CollectiveRow row{"made", op, gpus, bytes, std::min(ll, simple + size / n / 900e9)};
        rows.push_back(row);
      }
  const CollectiveTableFit fit = fit_collective_table(rows, machine(), false);
  ASSERT_TRUE(fit.ring[2]);
  EXPECT_NEAR(fit.ring[2]->rate().value / 350e9, 1, 0.05);
  ASSERT_TRUE(fit.ring[0]);
  EXPECT_NEAR(fit.ring[0]->numbers[0].value / 5e-6, 1, 0.1);
  EXPECT_FALSE(fit.in_switch);
  EXPECT_LT(summaries({fit.held_out}).front().median, 0.02);
}

TEST(ComponentFit, ExchangesGiveBackTheRatesOfAnSm) {
  std::vector<ExchangeRow> rows;
  const model::ExchangeConstants known{
      .start = 30e-6, .rank_rate = 30e9, .row_time = 50e-9, .token_time = 400e-9, .nvlink_rate = 350e9};
  for (const std::int64_t tokens : {512, 1024, 4096, 8192})
    for (const std::int64_t hidden : {2048, 4096, 7168})
      for (const std::int64_t top_k : {1, 2, 8})
        for (const std::int64_t sms : {4, 8, 16, 24}) {
          ExchangeRow row{"made", "normal", "combine", 1, 8, tokens, hidden, top_k, 256, sms, 0};
          row.seconds = exchange_seconds(known,
                                         {.tokens = static_cast<double>(tokens),
                                          .token_bytes = 2 * static_cast<double>(hidden),
                                          .ranks_per_token = distinct_groups(8, 256, static_cast<double>(top_k)),
                                          .nodes_per_token = 1,
                                          .ranks = 8,
                                          .nodes = 1},
                                         static_cast<double>(sms))
                            .seconds();
          rows.push_back(row);
        }
  const auto fit = fit_exchange_table(rows, "combine", machine(), 350e9);
  EXPECT_NEAR(fit.constants.rank_rate / 30e9, 1, 0.02);
  EXPECT_NEAR(fit.constants.token_time / 400e-9, 1, 0.02);
  EXPECT_EQ(fit.fitted.size(), 4U) << "those of one node";
}

TEST(ComponentFit, TraysGiveBackTheirTwoRates) {
  std::vector<TrayExchangeRow> rows;
  for (const std::int64_t ranks : {8, 16, 32, 64})
    for (std::int64_t tokens = 2; tokens <= 16384; tokens *= 2) {
      TrayExchangeRow row{"k", "combine", "bf16", ranks, tokens, 0};
      const double n = static_cast<double>(ranks), remote = distinct_groups(n, 256, 8) * (1 - 1 / n);
      row.seconds = 10e-6 * std::pow(n, 0.1) + static_cast<double>(tokens) * 7168 * 2 * (remote / 1200e9 + 1 / 120e9);
      rows.push_back(row);
    }
  const auto fit = fit_tray_table(rows, "k", "combine", "bf16", machine());
  EXPECT_NEAR(fit.constants.nvlink_rate / 1200e9, 1, 0.03);
  EXPECT_NEAR(fit.constants.local_rate / 120e9, 1, 0.03);
}

TEST(ComponentFit, TopKOfExpertsReachDistinctGroups) {
  EXPECT_DOUBLE_EQ(distinct_groups(8, 8, 8), 8);
  EXPECT_NEAR(distinct_groups(8, 256, 1), 1, 1e-9);
  EXPECT_NEAR(distinct_groups(2, 4, 2), 2 * (1 - 1.0 / 6), 1e-9);
}

TEST(HeldOut, TheSplitDependsOnTheShapeAlone) {
  EXPECT_TRUE(is_held_out("1-4096-8-1-128") == is_held_out("1-4096-8-1-128"));
  std::size_t held = 0;
  for (int i = 0; i < 3000; ++i) held += is_held_out(std::to_string(i)) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(held) / 3000, 1.0 / 3, 0.04);
}

// Eight of ten normal numbers are within 1.2816 standard deviations of 0.
TEST(HeldOut, TheDeviationIsThatOfANormalDistributionWithAsManyNearZero) {
  model::Random random(1);
  std::vector<double> normal;
  for (int i = 0; i < 20000; ++i) normal.push_back(0.1 * random.normal());
  EXPECT_NEAR(deviation_of(normal), 0.1, 0.002);
  EXPECT_NEAR(deviation_of({-0.1, 0.2, -0.3, 0.4, 5, -0.5}), 0.5 / 1.28155, 1e-5);
}

TEST(HeldOut, FamiliesPoolTheirTables) {
  const auto all =
      summaries({{"gemm", "a", 10, {0.1, 0.1}, {0.5, 0.5}}, {"gemm", "b", 5, {0.3}, {0.5}}, {"x", "c", 1, {}, {}}});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].table, "");
  EXPECT_EQ(all[0].fitted_rows, 15U);
  EXPECT_EQ(all[0].rows, 3U);
  EXPECT_DOUBLE_EQ(all[0].median, 0.1);
  EXPECT_EQ(all[1].table, "a");
}

}  // namespace
}  // namespace plumbline::calibrate
