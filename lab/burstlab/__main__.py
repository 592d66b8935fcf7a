from burstlab.main import main

main()
