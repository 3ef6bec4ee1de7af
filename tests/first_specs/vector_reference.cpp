#include <vector>

void scale(const std::vector<float> &in, std::vector<float> &out, float s)
{
    for (std::size_t i = 0; i < in.size(); ++i)
        out.push_back(s * in[i]);
}
