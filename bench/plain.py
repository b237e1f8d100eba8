"""Time the published recipe in plain PyTorch: python -m bench.plain [--dataset wn18rr --form 5star --wide …]"""

from bench.compare.plain_torch import main

if __name__ == "__main__":
    main()
