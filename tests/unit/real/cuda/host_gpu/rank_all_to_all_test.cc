// Dispatch, combine and their gradients between ranks, compared with results from all ranks' tensors in double
// precision. Ranks are threads with stand-ins for their GPUs and NCCL.
#include "real/cuda/comm/nccl/detail/rank_all_to_all.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "tests/support/host_gpu/ranks.h"

namespace plumbline::tests {
namespace {

using host_gpu::make_buffer;
using host_gpu::numbers_of;
using model::OperatorKind;
using real::cuda::CudaBuffer;
using real::cuda::Format;

using Values = std::vector<float>;

constexpr std::int64_t columns = 256, choices = 3;
constexpr std::int32_t per_rank = 3;

struct Setting {
  std::int32_t ranks = 2, on_node = 1;
  std::int32_t sharers = 1;  // ranks that hold parts of the same experts
  Format payload = Format::bf16;
  std::int64_t tokens = 20;  // that of the rank with the fewest

  std::int32_t experts() const { return ranks * per_rank / sharers; }
  // Ranks that share experts across several nodes do not use the nodes.
  std::int32_t node_members() const { return on_node % sharers == 0 ? on_node : 1; }
  std::int32_t transfers() const { return node_members() > 1 && node_members() < ranks ? 2 : 1; }
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.ranks << " ranks, " << s.on_node << " on a node, " << s.sharers << " to an expert, "
             << (s.payload == Format::bf16 ? "BF16" : "FP8") << ", " << s.tokens << " tokens";
}

Values random_values(std::int64_t count, std::uint64_t seed) {
  model::Random random(seed);
  Values values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

// A tensor with the values that were written, rounded to its format.
struct Tensor {
  Tensor(Format tensor_format, std::int64_t tensor_columns, std::int64_t rows, std::uint64_t seed)
      : Tensor(tensor_format, tensor_columns, random_values(rows * tensor_columns, seed)) {}
  Tensor(Format tensor_format, std::int64_t tensor_columns, Values values)
      : format(tensor_format),
        width(tensor_columns),
        written(std::move(values)),
        held(numbers_of(*make_buffer(format, width, written))) {}

  std::int64_t rows() const { return static_cast<std::int64_t>(written.size()) / width; }
  float at(std::size_t row, std::int64_t column) const {
    return held[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(column)];
  }

  Format format;
  std::int64_t width;
  Values written, held;
};

struct Origin {
  std::int32_t rank;
  std::size_t token;
};

// All tensors of a group's ranks before an all-to-all, and the receivers of each token.
class World {
 public:
  struct Member {
    Tensor x, indices, weights, dout, addend;  // by token
    std::vector<Origin> received_rows;         // received rows, in order
    Tensor y, dweights;                        // by row
  };

  World(const Setting& setting, std::uint64_t turn) : setting_(setting) {
    std::vector<Tensor> indices;
    for (std::int32_t rank = 0; rank < setting.ranks; ++rank) {
      // In later rounds one rank has no tokens, and the last experts get none.
      const std::int64_t tokens =
          turn > 0 && rank == 1 ? 0 : setting.tokens + 7 * rank + static_cast<std::int64_t>(turn);
      const std::int32_t chosen =
          setting.experts() - (turn > 0 && setting.experts() >= per_rank + choices ? per_rank : 0);
      indices.emplace_back(Format::int32, choices,
                           route(tokens, chosen, 100 * turn + static_cast<std::uint64_t>(rank)));
    }
    for (std::int32_t rank = 0; rank < setting.ranks; ++rank) {
      const std::uint64_t seed = 1000 * turn + 10 * static_cast<std::uint64_t>(rank);
      const auto& own = indices[static_cast<std::size_t>(rank)];
      std::vector<Origin> received_rows = rows_received_by(rank, indices);
      const auto rows = static_cast<std::int64_t>(received_rows.size());
      members_.push_back(
          {Tensor(setting.payload, columns, own.rows(), seed), own, Tensor(Format::fp32, choices, own.rows(), seed + 1),
           Tensor(setting.payload, columns, own.rows(), seed + 2), Tensor(Format::bf16, columns, own.rows(), seed + 3),
           std::move(received_rows), Tensor(Format::bf16, columns, rows, seed + 4),
           Tensor(Format::fp32, choices, rows, seed + 5)});
    }
  }

  const Member& of(std::int32_t rank) const { return members_[static_cast<std::size_t>(rank)]; }

  // Returns the rank that computes a choice of `sender`'s.
  std::int32_t home(std::int32_t sender, float expert) const {
    return static_cast<std::int32_t>(expert) / per_rank * setting_.sharers + sender % setting_.sharers;
  }

 private:
  // Returns distinct experts for each token, of the first `experts`.
  static Values route(std::int64_t tokens, std::int32_t experts, std::uint64_t seed) {
    model::Random random(seed);
    Values indices;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = 0; i < choices; ++i) {
        const double pick = random.uniform() * (static_cast<double>(order.size()) - static_cast<double>(i));
        std::swap(order[i], order[i + static_cast<std::size_t>(pick)]);
        indices.push_back(static_cast<float>(order[i]));
      }
    }
    return indices;
  }

  // Returns the rows in the order of the sender's place within its node, then its node, then the token.
  std::vector<Origin> rows_received_by(std::int32_t to, const std::vector<Tensor>& indices) const {
    std::vector<Origin> received_rows;
    for (std::int32_t place = 0; place < setting_.node_members(); ++place)
      for (std::int32_t sender = place; sender < setting_.ranks; sender += setting_.node_members()) {
        const Tensor& chosen = indices[static_cast<std::size_t>(sender)];
        for (std::size_t token = 0; token < static_cast<std::size_t>(chosen.rows()); ++token) {
          bool comes = false;
          for (std::int64_t i = 0; i < choices; ++i) comes = comes || home(sender, chosen.at(token, i)) == to;
          if (comes) received_rows.push_back({sender, token});
        }
      }
    return received_rows;
  }

  Setting setting_;
  std::vector<Member> members_;
};

struct Sum {
  double value = 0, magnitude = 0;  // magnitude: the sum of its addends' magnitudes
  void add(double addend) {
    value += addend;
    magnitude += std::abs(addend);
  }
};
void expect_sums(const Values& got, const std::vector<Sum>& want, double precision) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i].value, want[i].magnitude * precision + 1e-6) << "element " << i;
}

// The buffers of a rank, used in every round.
class AllToAll {
 public:
  AllToAll(const Setting& setting, const host_gpu::Rank& rank)
      : setting_(setting), rank_(rank), group_(real::all_ranks(setting.ranks, rank.number())) {}

  void run(const World& world) {
    const World::Member& own = world.of(rank_.number());
    const std::int64_t tokens = own.x.rows();
    fill(*x_, own.x);
    fill(*indices_, own.indices);
    fill(*weights_, own.weights);
    fill(*dout_, own.dout);
    fill(*addend_, own.addend);
    fill(*y_, own.y);
    fill(*dy_weights_, own.dweights);
    for (const auto& buffer : {std::ref(out_), std::ref(dx_), std::ref(dweights_)}) fit(*buffer.get(), tokens);
    for (const auto& buffer : {std::ref(received_), std::ref(local_), std::ref(row_weights_), std::ref(dy_)})
      fit(*buffer.get(), 0);
    launch(OperatorKind::dispatch, {*x_, *indices_, *weights_}, {*received_, *local_, *row_weights_});
    launch(OperatorKind::combine_grad, {*dout_, *indices_}, {*dy_});
    launch(OperatorKind::combine, {*y_, *indices_, *addend_}, {*out_});
    launch(OperatorKind::dispatch_grad, {*y_, *dy_weights_, *indices_}, {*dx_, *dweights_});
    rank_.synchronize();
  }

  void check(const World& world) const {
    check_rows(world);
    check_sums(world);
  }

 private:
  void fit(CudaBuffer& buffer, std::int64_t rows) const { rank_.expect(buffer.resize(rows)); }
  void fill(CudaBuffer& buffer, const Tensor& tensor) const {
    fit(buffer, tensor.rows());
    host_gpu::put(tensor.written, buffer);
  }

  void launch(OperatorKind kind, const std::vector<std::reference_wrapper<CudaBuffer>>& reads,
              const std::vector<std::reference_wrapper<CudaBuffer>>& writes) const {
    model::Operator op{.kind = kind, .name = "an all-to-all"};
    op.attributes = model::DispatchAttributes{setting_.experts(), per_rank, choices, 0};
    real::Kernel kernel{.op = &op};
    for (CudaBuffer& buffer : reads) kernel.reads.push_back(&buffer);
    for (CudaBuffer& buffer : writes) kernel.writes.push_back(&buffer);
    rank_.expect(rank_.others.launch(group_, kernel, rank_.stream));
  }

  void check_rows(const World& world) const {
    const std::vector<Origin>& received_rows = world.of(rank_.number()).received_rows;
    ASSERT_EQ(received_->rows(), static_cast<std::int64_t>(received_rows.size()));
    Values rows, local, row_weights, gradients;
    std::vector<std::int64_t> per_expert(per_rank);
    for (const Origin& origin : received_rows) {
      const World::Member& sender = world.of(origin.rank);
      for (std::int64_t c = 0; c < columns; ++c) rows.push_back(sender.x.at(origin.token, c));
      for (std::int64_t c = 0; c < columns; ++c) gradients.push_back(sender.dout.at(origin.token, c));
      for (std::int64_t i = 0; i < choices; ++i) {
        const float expert = sender.indices.at(origin.token, i);
        const bool here = world.home(origin.rank, expert) == rank_.number();
        const std::int32_t number = static_cast<std::int32_t>(expert) % per_rank;
        local.push_back(here ? static_cast<float>(number) : -1);
        row_weights.push_back(sender.weights.at(origin.token, i));
        if (here) ++per_expert[static_cast<std::size_t>(number)];
      }
    }
    EXPECT_EQ(numbers_of(*local_), local);
    EXPECT_EQ(numbers_of(*received_), rows);
    EXPECT_EQ(numbers_of(*row_weights_), row_weights);
    EXPECT_EQ(numbers_of(*dy_), gradients);
    EXPECT_EQ(local_->known, per_expert);
  }

  void check_sums(const World& world) const {
    const World::Member& own = world.of(rank_.number());
    const auto tokens = static_cast<std::size_t>(own.x.rows());
    std::vector<Sum> out(tokens * columns), dx(tokens * columns), dweights(tokens * choices);
    for (std::size_t i = 0; i < out.size(); ++i) out[i].add(own.addend.held[i]);
    for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) {
      const World::Member& other = world.of(rank);
      for (std::size_t row = 0; row < other.received_rows.size(); ++row) {
        if (other.received_rows[row].rank != rank_.number()) continue;
        const std::size_t token = other.received_rows[row].token;
        for (std::int64_t c = 0; c < columns; ++c) {
          out[token * columns + static_cast<std::size_t>(c)].add(other.y.at(row, c));
          dx[token * columns + static_cast<std::size_t>(c)].add(other.y.at(row, c));
        }
        for (std::int64_t i = 0; i < choices; ++i)
          dweights[token * choices + static_cast<std::size_t>(i)].add(other.dweights.at(row, i));
      }
    }
    const double rounded_to_bf16 = setting_.transfers() * 0x1p-8, added_in_fp32 = 0x1p-22;
    expect_sums(numbers_of(*out_), out, rounded_to_bf16);
    expect_sums(numbers_of(*dx_), dx, rounded_to_bf16);
    expect_sums(numbers_of(*dweights_), dweights, added_in_fp32);
  }

  using Pointer = std::unique_ptr<CudaBuffer>;
  const Setting setting_;
  const host_gpu::Rank& rank_;
  const real::Group group_;
  const Pointer x_ = make_buffer(setting_.payload, 1, columns), indices_ = make_buffer(Format::int32, 1, choices),
                weights_ = make_buffer(Format::fp32, 1, choices), dout_ = make_buffer(setting_.payload, 1, columns),
                addend_ = make_buffer(Format::bf16, 1, columns), y_ = make_buffer(Format::bf16, 1, columns),
                dy_weights_ = make_buffer(Format::fp32, 1, choices);
  const Pointer received_ = make_buffer(setting_.payload, 1, columns), local_ = make_buffer(Format::int32, 1, choices),
                row_weights_ = make_buffer(Format::fp32, 1, choices), dy_ = make_buffer(setting_.payload, 1, columns),
                out_ = make_buffer(Format::bf16, 1, columns), dx_ = make_buffer(Format::bf16, 1, columns),
                dweights_ = make_buffer(Format::fp32, 1, choices);
};

class RankExchange : public testing::TestWithParam<Setting> {};

// Three rounds with different routings use the same buffers: the data of an earlier round must not show.
TEST_P(RankExchange, MovesTokensAndAddsThemUp) {
  const Setting setting = GetParam();
  const std::vector<World> turns = {World(setting, 0), World(setting, 1), World(setting, 2)};
  host_gpu::on_gpus(setting.ranks, setting.on_node, [&](const host_gpu::Rank& rank) {
    AllToAll all_to_all(setting, rank);
    for (std::size_t turn = 0; turn < turns.size() && !testing::Test::HasFailure(); ++turn) {
      SCOPED_TRACE("rank " + std::to_string(rank.number()) + ", turn " + std::to_string(turn));
      all_to_all.run(turns[turn]);
      all_to_all.check(turns[turn]);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Bf16, RankExchange,
                         testing::Values(Setting{2, 1}, Setting{2, 2}, Setting{4, 1}, Setting{4, 2}, Setting{4, 4},
                                         Setting{8, 1}, Setting{8, 2}, Setting{8, 4}, Setting{8, 8}));
INSTANTIATE_TEST_SUITE_P(Fp8, RankExchange,
                         testing::Values(Setting{2, 1, 1, Format::fp8_tile}, Setting{4, 2, 1, Format::fp8_tile},
                                         Setting{8, 4, 1, Format::fp8_tile}));
INSTANTIATE_TEST_SUITE_P(DividedExperts, RankExchange,
                         testing::Values(Setting{4, 1, 2}, Setting{4, 2, 2}, Setting{4, 2, 4}, Setting{8, 4, 2},
                                         Setting{8, 8, 4}));

// There are more tokens than a block reads in one round.
INSTANTIATE_TEST_SUITE_P(ManyTokens, RankExchange,
                         testing::Values(Setting{2, 1, 1, Format::bf16, 1100}, Setting{4, 2, 1, Format::bf16, 600}));

}  // namespace
}  // namespace plumbline::tests
