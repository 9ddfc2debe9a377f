// Products in pieces beside their messages: those of the whole, sums in double, and the order in which work goes out.

#include "nn/overlapped_linear.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "comm/device_ranks.h"
#include "comm/nccl.h"
#include "device/backend.h"
#include "ops/op_case.h"
#include "params/rank_params.h"

namespace mt {
namespace {

using test::Doubles;
using test::I;
using test::z;

constexpr TpOverlap kAll{true, true, true, true, true};

// Ranks of the device under test: threads, or staged, and over NCCL in rank order where there are devices.
void on_all_worlds(int n, const test::DeviceBody& body) {
  test::on_device_ranks(n, body);
  if (test::on_cpu() || !comm::nccl_why_not().empty() || cuda_backend().count() < n) return;
  CommOptions options;
  options.timeout_s = 60;
  comm::run_local_ranks(n, options, [&](std::unique_ptr<Communicator> world) {
    body(*comm::nccl_world(*world, test::rank_device(*world), {.rank_order_sums = true}));
  });
}

// A rank with a feed-forward network of its own: fc1 [2F/n, C], fc2 [C, F/n].
struct Ffn {
  test::RankParams r;
  Arena scratch;
  Tokens none;
  Product fc1, fc2;
  I n, width, inner;
  Ffn(Communicator& world, DType dtype)
      : r(world, test::small_model(), test::layout(world.size(), 1, true), dtype, Stream::Mode::immediate,
          ParameterStore::Gradients::present, test::rank_device(world)),
        scratch(test::rank_device(world)),
        fc1{require_param(r.store, "decoder.layers.0.mlp.linear_fc1.weight")},
        fc2{require_param(r.store, "decoder.layers.0.mlp.linear_fc2.weight")},
        n(world.size()) {
    width = r.store.weight(fc2.weight).dim(0);
    inner = r.store.weight(fc2.weight).dim(1);
    const auto seed = static_cast<unsigned>(world.rank());
    for (const Product& p : {fc1, fc2}) {
      test::Data d(100 + seed);
      const View w = r.store.weight(p.weight), random = d.normal(w.dtype, w.shape, 0.1);
      copy_bytes(r.stream, w.data, random.data, w.bytes());
      r.stream.synchronize();
    }
  }
  Ctx ctx(const TpOverlap& overlap) {
    Ctx c{r.stream, r.groups, r.store, scratch, none};
    c.tp_overlap = overlap;
    return c;
  }
  View on_device(const View& host) {
    const View v = allocate(scratch, host.dtype, host.shape);
    copy_bytes(r.stream, v.data, host.data, host.bytes());
    return v;
  }
  Doubles values(const View& v) {
    test::Data d;
    const View host = d.zeros(v.dtype, v.shape);
    copy_bytes(r.stream, host.data, v.data, v.bytes());
    r.stream.synchronize();
    return test::values(host);
  }
};

// Of a product of fewer rows: the same bits on the emulated device, as the CPU's and cuBLASLt's kernels choose by shape.
void expect_alike(const Doubles& got, const Doubles& want, DType dtype) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], dtype == DType::f32 ? 1e-5 : 0x1p-7 * std::fabs(want[i]) + 1e-6) << i;
  if (!test::on_cpu() && cuda_backend().emulated) {
    EXPECT_EQ(got, want);
  }
}

struct Case {
  int n;
  DType dtype;
  I rows;  // of a shard
};

class Pieces : public testing::TestWithParam<Case> {};

void PrintTo(const Case& c, std::ostream* out) { *out << "Tp" << c.n << dtype_name(c.dtype) << "Rows" << c.rows; }

TEST_P(Pieces, OfAGatherAreMultipliedToTheProductOfTheWhole) {
  const auto [n, dtype, rows] = GetParam();
  on_all_worlds(n, [&, dtype = dtype, rows = rows](Communicator& world) {
    Ffn f(world, dtype);
    std::vector<Doubles> forward, backward, gathered;
    for (const TpOverlap& overlap : {TpOverlap{}, kAll}) {
      Ctx ctx = f.ctx(overlap);
      test::Data d(static_cast<unsigned>(world.rank()) + 1);
      const View x = f.on_device(d.normal(dtype, {rows, f.width})), y = allocate(f.scratch, dtype, {rows * f.n, 2 * f.inner}),
                 dx = allocate(f.scratch, dtype, {rows * f.n, f.inner});
      Flow flow;
      flow.kept = &f.scratch;
      start_gather_for(ctx, flow, f.fc1, x, flow.full);
      EXPECT_EQ(flow.gathers_in_pieces, overlap.gather);
      EXPECT_EQ(flow.gathering.size(), z(overlap.gather ? f.n - 1 : 1));
      await_gather(ctx, flow);
      linear_of_gathered(ctx, flow, f.fc1, flow.full, y);
      start_gather_kept_for(ctx, flow, f.fc2, x, flow.dz_full);
      await_gather(ctx, flow);
      linear_backward_input_of_gathered(ctx, flow, f.fc2, flow.dz_full, dx);
      EXPECT_TRUE(flow.gathering.empty());
      gathered.push_back(f.values(flow.full));
      forward.push_back(f.values(y));
      backward.push_back(f.values(dx));
      EXPECT_EQ(gathered.back(), f.values(flow.dz_full));
    }
    EXPECT_EQ(gathered[1], gathered[0]);
    expect_alike(forward[1], forward[0], dtype);
    expect_alike(backward[1], backward[0], dtype);
    Doubles want;
    for (int rank = 0; rank < world.size(); ++rank) {
      test::Data d(static_cast<unsigned>(rank) + 1);
      for (double v : test::values(d.normal(dtype, {rows, f.width}))) want.push_back(v);
    }
    EXPECT_EQ(gathered[1], want);
  });
}

TEST_P(Pieces, OfAProductAreSummedToTheSumOfTheWhole) {
  const auto [n, dtype, rows] = GetParam();
  std::vector<Doubles> inputs(z(n)), weights(z(n)), sums(z(n));
  on_all_worlds(n, [&, dtype = dtype, rows = rows](Communicator& world) {
    Ffn f(world, dtype);
    const auto rank = z(world.rank());
    std::vector<Doubles> forward, backward;
    for (const TpOverlap& overlap : {TpOverlap{}, kAll}) {
      Ctx ctx = f.ctx(overlap);
      test::Data d(static_cast<unsigned>(rank) + 1);
      const View x = f.on_device(d.normal(dtype, {rows * f.n, f.inner})), dy = f.on_device(d.normal(dtype, {rows * f.n, 2 * f.inner}));
      const auto pieces = z(std::min<I>(kSumPieces, rows));
      Flow flow;
      linear_to_sum(ctx, flow, f.fc2, x);
      EXPECT_EQ(flow.summing.size(), overlap.sum ? pieces : 0u);
      start_sum(ctx, flow, flow.partial, flow.partial);
      EXPECT_EQ(flow.summing.size(), overlap.sum ? pieces : 1u);
      await_sum(ctx, flow);
      forward.push_back(f.values(flow.partial));
      linear_backward_input_to_sum(ctx, flow, f.fc1, dy);
      start_sum(ctx, flow, flow.partial, flow.partial);
      await_sum(ctx, flow);
      EXPECT_EQ(flow.partial.shape, (Shape{rows, f.width}));
      backward.push_back(f.values(flow.partial));
      inputs[rank] = f.values(x);
    }
    expect_alike(forward[1], forward[0], dtype);
    expect_alike(backward[1], backward[0], dtype);
    weights[rank] = f.values(f.r.store.weight(f.fc2.weight));
    sums[rank] = forward[1];
  });
  const I width = 32, inner = std::ssize(weights[0]) / width;
  for (I t = 0; t < rows * n; ++t)
    for (I c = 0; c < width; ++c) {
      double want = 0, size = 0;
      for (int r = 0; r < n; ++r)
        for (I k = 0; k < inner; ++k) {
          const double term = inputs[z(r)][z(t * inner + k)] * weights[z(r)][z(c * inner + k)];
          want += term, size += std::fabs(term);
        }
      ASSERT_NEAR(sums[z(t / rows)][z(t % rows * width + c)], want, size * (dtype == DType::f32 ? 1e-6 : 0x1p-7)) << t << ", " << c;
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Pieces,
                         testing::Values(Case{2, DType::f32, 9}, Case{4, DType::f32, 1}, Case{2, DType::bf16, 64},
                                         Case{4, DType::bf16, 33}, Case{8, DType::f32, 5}),
                         testing::PrintToStringParamName());

// ---- the order of work -------------------------------------------------------------------------------------------

// Tells when an exchange or a sum starts, and when it is waited for.
using Told = std::function<void(const std::string& what, int number)>;

class Telling final : public Communicator {
 public:
  Telling(std::unique_ptr<Communicator> owned, Communicator& inner, const Told& told)
      : Communicator(inner.name(), inner.world_ranks()), owned_(std::move(owned)), inner_(inner), told_(told) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const CommOptions& options() const override { return inner_.options(); }
  Handle all_reduce(Stream& s, View x, Reduce op) override { return inner_.all_reduce(s, x, op); }
  Handle all_gather(Stream& s, View in, View out) override { return inner_.all_gather(s, in, out); }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    return tell("sum", inner_.reduce_scatter(s, in, out, op));
  }
  Handle all_to_all(Stream& s, View in, View out) override { return inner_.all_to_all(s, in, out); }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> sent, View out,
                      std::span<const std::int64_t> received) override {
    return tell("exchange", inner_.all_to_all_v(s, in, sent, out, received));
  }
  Handle broadcast(Stream& s, View x, int root) override { return inner_.broadcast(s, x, root); }
  Handle send(Stream& s, View x, int peer) override { return inner_.send(s, x, peer); }
  Handle recv(Stream& s, View x, int peer) override { return inner_.recv(s, x, peer); }
  Handle barrier(Stream& s) override { return inner_.barrier(s); }
  void progress() override { inner_.progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    auto group = inner_.make_group(ranks, name);
    Communicator& plain = *group;
    return std::make_unique<Telling>(std::move(group), plain, told_);
  }

 private:
  struct Work final : Handle::Work {
    Work(Handle h, std::function<void()> t) : inner(std::move(h)), waited(std::move(t)) {}
    bool test() override { return inner.test(); }
    void wait() override { waited(), inner.wait_host(); }
    void wait_on(Stream& stream) override { waited(), inner.wait(stream); }
    Handle inner;
    std::function<void()> waited;
  };
  Handle tell(const std::string& what, Handle inner) {
    const int number = count_++;
    told_("start " + what, number);
    return Handle(std::make_unique<Work>(std::move(inner), [this, what, number] { told_("await " + what, number); }));
  }
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  const Told& told_;
  int count_ = 0;
};

constexpr float kUntouched = std::numeric_limits<float>::infinity();

// Rows of `v`, in parts, that hold a result.
std::string written(const View& v, I parts) {
  std::string s;
  for (I p = 0; p < parts; ++p) s += v.as<float>()[v.dim(0) * p / parts * v.dim(1)] == kUntouched ? '.' : 'x';
  return s;
}

// Streams of the CPU run at once, so what has been launched shows in memory.
TEST(PiecesInOrder, AShardIsMultipliedBeforeTheNextOneIsAwaited) {
  constexpr int kRanks = 4;
  test::on_ranks(kRanks, [&](Communicator& world) {
    std::vector<std::string> log;
    View y;
    const Told told = [&](const std::string& what, int number) {
      log.push_back(fmt::format("{} {} {}", what, number, written(y, kRanks)));
    };
    Telling telling(nullptr, world, told);
    test::RankParams r(telling, test::small_model(), test::layout(kRanks, 1, true));
    const Product fc1{require_param(r.store, "decoder.layers.0.mlp.linear_fc1.weight")};
    Arena scratch({});
    Tokens none;
    Ctx ctx{r.stream, r.groups, r.store, scratch, none};
    ctx.tp_overlap = kAll;
    test::Data d;
    const View x = d.normal(DType::f32, {3, 32});
    y = d.zeros(DType::f32, {3 * kRanks, r.store.weight(fc1.weight).dim(0)});
    std::fill_n(y.as<float>(), y.size(), kUntouched);
    Flow flow;
    start_gather_for(ctx, flow, fc1, x, flow.full);
    await_gather(ctx, flow);
    linear_of_gathered(ctx, flow, fc1, flow.full, y);
    std::string has(kRanks, '.');
    std::vector<std::string> want;
    for (int i = 0; i < kRanks - 1; ++i) want.push_back(fmt::format("start exchange {} {}", i, has));
    for (int i = 0; i < kRanks - 1; ++i) {
      has[z((world.rank() + kRanks - i) % kRanks)] = 'x';
      want.push_back(fmt::format("await exchange {} {}", i, has));
    }
    EXPECT_EQ(log, want);
  });
}

TEST(PiecesInOrder, ASumStartsBeforeTheNextPieceIsMultipliedAndAllBeforeOneIsAwaited) {
  test::on_ranks(2, [&](Communicator& world) {
    std::vector<std::string> log;
    Flow flow;
    const Told told = [&](const std::string& what, int number) {
      log.push_back(fmt::format("{} {} {}", what, number, what == "start sum" ? written(flow.partial, kSumPieces) : ""));
    };
    Telling telling(nullptr, world, told);
    test::RankParams r(telling, test::small_model(), test::layout(2, 1, true));
    const Product fc2{require_param(r.store, "decoder.layers.0.mlp.linear_fc2.weight")};
    Arena scratch({});
    Tokens none;
    Ctx ctx{r.stream, r.groups, r.store, scratch, none};
    ctx.tp_overlap = kAll;
    test::Data d;
    const View x = d.normal(DType::f32, {16, r.store.weight(fc2.weight).dim(1)});
    {  // the memory that the product will take
      const ArenaScope scope(scratch);
      const View partial = allocate(scratch, DType::f32, {16, 32});
      std::fill_n(partial.as<float>(), partial.size(), kUntouched);
    }
    linear_to_sum(ctx, flow, fc2, x);
    start_sum(ctx, flow, flow.partial, flow.partial);
    await_sum(ctx, flow);
    EXPECT_EQ(log, (std::vector<std::string>{"start sum 0 x...", "start sum 1 xx..", "start sum 2 xxx.", "start sum 3 xxxx",
                                             "await sum 0 ", "await sum 1 ", "await sum 2 ", "await sum 3 "}));
  });
}

SubLayer named(const std::vector<std::string>& input, const std::vector<std::string>& weight) {
  using K = Segment::Kind;
  static std::vector<std::unique_ptr<std::string>> names;
  const auto table = [](const std::vector<std::string>& all) {
    std::vector<Segment> out;
    for (const auto& s : all) {
      const auto kind = s.starts_with("start ") ? K::start : s.starts_with("await ") ? K::await : K::compute;
      names.push_back(std::make_unique<std::string>(s.substr(kind == K::compute ? 0 : 6)));
      out.push_back({kind, names.back()->c_str(), {}});
    }
    return out;
  };
  SubLayer s;
  s.backward_input = table(input);
  s.backward_weight = table(weight);
  return s;
}

std::string order_of(const SubLayer& layer, const TpOverlap& overlap) {
  std::string s;
  for (const auto& segment : whole_backward(layer, overlap))
    s += fmt::format("{}{}{}", s.empty() ? "" : ", ",
                     segment.kind == Segment::Kind::start ? "start " : segment.kind == Segment::Kind::await ? "await " : "", segment.name);
  return s;
}

TEST(WholeBackward, PutsMessagesBesideTheProductsOfTheOtherGradient) {
  SubLayer s = named({"residual", "mlp", "fc1", "start sum", "await sum", "norm"}, {"start gather", "fc2 w", "await gather", "fc1 w"});
  EXPECT_EQ(order_of(s, {}), "residual, mlp, fc1, start sum, await sum, norm, start gather, fc2 w, await gather, fc1 w");
  EXPECT_EQ(order_of(s, {.bulk_dgrad = true}),
            "residual, mlp, start gather, fc1, start sum, await sum, norm, fc2 w, await gather, fc1 w");
  EXPECT_EQ(order_of(s, {.bulk_wgrad = true}),
            "residual, mlp, fc1, start sum, start gather, fc2 w, await gather, fc1 w, await sum, norm");
  EXPECT_EQ(order_of(s, kAll), "residual, mlp, start gather, fc1, start sum, fc2 w, await gather, fc1 w, await sum, norm");
  s.fp8 = true;
  EXPECT_EQ(order_of(s, kAll), "residual, mlp, fc1, start sum, start gather, fc2 w, await gather, fc1 w, await sum, norm");
  const SubLayer embedding = named({"dropout", "start gather", "await gather"}, {"scatter"});
  EXPECT_EQ(order_of(embedding, kAll), "dropout, start gather, await gather, scatter");
}

}  // namespace
}  // namespace mt
