#include "cli/scene.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace smelt::cli {
namespace {

Datum scene_tensor(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from<float>(DType::kF32, shape, std::span<const float>(values));
}

TEST(Scene, DetectionPostProcess) {
  const Datum boxes = scene_tensor({1, 2, 4}, {0.5f, 0.25f, 1, 0.75f, 0, 0, 1, 1});
  const Datum classes = scene_tensor({1, 2}, {7, 3}), scores = scene_tensor({1, 2}, {0.5f, 0.125f});
  const Datum count = scene_tensor({1}, {2});
  for (const auto& outputs : {std::vector<Datum>{boxes, classes, scores, count}, {scores, boxes, count, classes}}) {
    const auto scene = recognise_scene(outputs, {1, 64, 64, 3});
    ASSERT_TRUE(scene && !scene->is_mask);
    ASSERT_EQ(scene->objects.size(), 1u);  // the other's score is too low
    EXPECT_EQ(scene->objects[0].index, 7);
    EXPECT_EQ(scene->objects[0].left, 0.25f);
    EXPECT_EQ(scene->objects[0].bottom, 1);
  }
}

/// A head of 32 anchors and two classes: anchors 0 and 1 overlap, 2 lies elsewhere.
std::vector<std::vector<float>> anchors(bool objectness) {
  std::vector<std::vector<float>> out(32, std::vector<float>(objectness ? 7 : 6, 0));
  out[0] = {32, 32, 16, 16, 0.1f, 0.9f};
  out[1] = {33, 32, 16, 16, 0.1f, 0.8f};
  out[2] = {8, 8, 16, 16, 0.7f, 0.1f};
  if (objectness)
    for (auto& a : out) a.insert(a.begin() + 4, a[4] > 0 ? 1 : 0), a.resize(7);
  return out;
}

void expect_two_objects(const std::optional<Scene>& scene) {
  ASSERT_TRUE(scene && !scene->is_mask);
  ASSERT_EQ(scene->objects.size(), 2u);
  EXPECT_EQ(scene->objects[0].index, 1);
  EXPECT_FLOAT_EQ(scene->objects[0].left, 24.0f / 64);
  EXPECT_EQ(scene->objects[1].index, 0);
  EXPECT_FLOAT_EQ(scene->objects[1].top, 0);
}

TEST(Scene, YoloLikeHeads) {
  std::vector<float> first(6 * 32), last;
  const auto rows = anchors(false);
  for (size_t i = 0; i < 32; ++i)
    for (size_t a = 0; a < 6; ++a) first[a * 32 + i] = rows[i][a];
  for (const auto& a : anchors(true)) last.insert(last.end(), a.begin(), a.end());
  expect_two_objects(recognise_scene({scene_tensor({1, 6, 32}, first)}, {1, 3, 64, 64}));
  expect_two_objects(recognise_scene({scene_tensor({1, 32, 7}, last)}, {1, 64, 64, 3}));
}

TEST(Scene, Segmentation) {
  std::vector<float> scores(8 * 8 * 2, 0);
  for (size_t i = 0; i < 64; ++i) scores[2 * i + (i < 16)] = 1;
  const auto scene = recognise_scene({scene_tensor({1, 8, 8, 2}, scores)}, {1, 32, 32, 3});
  ASSERT_TRUE(scene && scene->is_mask);
  EXPECT_EQ(std::count(scene->mask.begin(), scene->mask.end(), 1), 16);
  Picture picture{16, 16, std::vector<uint8_t>(16 * 16 * 3, 100)};
  draw_scene(*scene, picture);
  EXPECT_NE(picture.rgb[0], 100);
  EXPECT_EQ(picture.rgb.back(), 100);
}

TEST(Scene, OtherOutputsAreNone) {
  EXPECT_FALSE(recognise_scene({}, {1, 3, 8, 8}));
  EXPECT_FALSE(recognise_scene({scene_tensor({1, 10}, std::vector<float>(10))}, {1, 3, 8, 8}));
  EXPECT_FALSE(recognise_scene({scene_tensor({1, 4, 4, 2}, std::vector<float>(32))}, {1, 3, 8, 8}));
  EXPECT_FALSE(recognise_scene({Datum()}, {1, 3, 8, 8}));
}

TEST(Scene, FramesStayInThePicture) {
  Picture picture{20, 10, std::vector<uint8_t>(20 * 10 * 3, 0)};
  Scene scene;
  scene.objects = {{0, 1, -5, -5, 5, 5}, {1, 0.5f, 0.5f, 0.5f, 0.2f, 0.2f}};
  draw_scene(scene, picture);
  EXPECT_NE(picture.rgb[0], 0);
  EXPECT_EQ(picture.rgb[(5 * 20 + 10) * 3], 0);
}

}  // namespace
}  // namespace smelt::cli
