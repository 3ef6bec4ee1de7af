/* Shortest paths between all pairs of n nodes, in place. */
void floyd_warshall(float *paths, int n)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (paths[i * n + j] > paths[i * n + k] + paths[k * n + j])
                    paths[i * n + j] = paths[i * n + k] + paths[k * n + j];
}
